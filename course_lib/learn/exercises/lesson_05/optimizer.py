"""05.optimizer: AdamW whose states are shared out."""

from __future__ import annotations

from course_lib.learn.exercise import Case, Exercise
from course_lib.learn.exercises.lesson_05.optimizer_cases import KINDS, compare, right
from course_lib.learn.exercises.lesson_05.optimizer_mistakes import MISTAKES
from course_lib.learn.exercises.lesson_05.optimizer_trial import trial
from course_lib.learn.exercises.lesson_05.wrong_optimizer_costs import ByTheLibrary
from course_lib.learn.judge import by_trial

__all__ = ["OPTIMIZER"]

OPTIMIZER = Exercise(
    name="05.optimizer",
    title="AdamW, its states shared out",
    judge=by_trial(
        (4, 2, 3, 5),
        tuple(Case(kind, (kind,), right(kind)) for kind in KINDS),
        trial,
        compare=compare,
        timeout_s=6.0,
    ),
    mistakes=MISTAKES,
    hints=(
        "AdamW treats each number by itself. To update one number, which others does it need: of the weights, of the "
        "gradients, of the states?",
        "In `__init__`: a parameter of your own with this rank's part of the weights, and a `torch.optim.AdamW` of "
        "that alone. In `step`: the sum of this rank's part of the gradients comes by a reduce-scatter; what each "
        "rank has updated comes to all by an all-gather.",
        "`self.own = nn.Parameter(packed(self.parameters, n).chunk(n)[me.rank].clone())`. In `step`: `self.own.grad = "
        "torch.empty_like(self.own)`, `dist.reduce_scatter_tensor(self.own.grad, gradients)` and `self.own.grad /= n`; "
        "`self.adamw.step()`; `dist.all_gather_into_tensor(weights, self.own.detach())`; `unpack(weights, "
        "self.parameters)`.",
    ),
    forbidden=("course_lib.parallel.sharded.optimizer.ShardedOptimizer",),
    forbidden_example=ByTheLibrary,
    passed="The weights of one device, on 2, 3, 4 and 5 ranks, also where sizes do not divide. Each rank keeps what "
    "belongs to its own part, and sends no more than a reduce-scatter and an all-gather do.",
)
