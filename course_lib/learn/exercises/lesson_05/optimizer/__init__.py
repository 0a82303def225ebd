"""05.optimizer: AdamW whose states are shared out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from course_lib.learn.catalogue.exercise import Case, Evidence, Exercise
from course_lib.learn.exercises.lesson_05.optimizer.cases import KINDS
from course_lib.learn.exercises.lesson_05.optimizer.mistakes import MISTAKES
from course_lib.learn.exercises.lesson_05.optimizer.reports import right
from course_lib.learn.exercises.lesson_05.optimizer.trial import trial
from course_lib.learn.judging.failure import NotAnAnswer
from course_lib.learn.judging.judge import RankJudge
from course_lib.learn.judging.report import compare

__all__ = ["OPTIMIZER"]


@dataclass(frozen=True)
class _ClassJudge(RankJudge):
    """``by_trial``, for a class."""

    def __call__(self, answer: Any, forbidden: tuple[str, ...] = ()) -> Evidence:
        if not callable(answer):
            raise NotAnAnswer("Give the class itself, without brackets behind it: each rank makes objects of its own.")
        return super().__call__(answer, forbidden)


OPTIMIZER = Exercise(
    name="05.optimizer",
    title="AdamW, its states shared out",
    judge=_ClassJudge(
        (4, 2, 3, 5),  # four first: of two ranks' parts, five are more than the model
        tuple(Case(kind, (kind,), right(kind)) for kind in KINDS),
        compare,
        timeout_s=6.0,
        call=trial,
        changes=True,
    ),
    mistakes=MISTAKES,
    hints=(
        "AdamW computes each number by itself. To update one number of a weight, which weights, gradients and states "
        "does it need?",
        "In `__init__`: a parameter of your own with this rank's part of the weights, and a `torch.optim.AdamW` of "
        "that alone. In `step`: the sum of this rank's part of the gradients comes by a reduce-scatter. An "
        "all-gather then gives every rank the parts that the others have updated.",
        "With `n = me.world_size`: `self.own = nn.Parameter(packed(self.parameters, n).chunk(n)[me.rank].clone())`. In "
        "`step`: `self.own.grad = torch.empty_like(self.own)`, `dist.reduce_scatter(self.own.grad, "
        "list(gradients.chunk(n)))` and `self.own.grad /= n`; `self.adamw.step()`; "
        "`dist.all_gather(list(weights.chunk(n)), self.own.detach())`; `unpack(weights, self.parameters)`.",
    ),
    forbidden=("course_lib.parallel.sharded.zero.sharded_optimizer.ShardedOptimizer",),
    passed="The weights are those of one device, on 2, 3, 4 and 5 ranks, also where the ranks do not divide the sizes. "
    "They are so with a second object for another model, too. Beside the model no rank keeps more numbers than five "
    "of its parts have, whatever their type. No rank sends more bytes than a reduce-scatter and an all-gather do.",
)
