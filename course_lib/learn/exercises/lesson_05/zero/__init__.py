"""05.zero: a sharded optimizer of one's own, in four steps; each demands what those before it demand, and more."""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Case, Exercise
from course_lib.learn.exercises.lesson_05.zero import mistakes
from course_lib.learn.exercises.lesson_05.zero.cases import SITUATIONS
from course_lib.learn.exercises.lesson_05.zero.reports import ZeroBytesReport, ZeroMemoryReport, ZeroValuesReport, right
from course_lib.learn.exercises.lesson_05.zero.signs import PLAIN
from course_lib.learn.exercises.lesson_05.zero.trial import trial
from course_lib.learn.judging.judge import RankJudge, by_trial
from course_lib.learn.judging.report import compare

__all__ = ["ZERO_STEPS"]

_FORBIDDEN = (
    "torch.distributed.optim.ZeroRedundancyOptimizer",
    "course_lib.parallel.sharded.zero.sharded_optimizer.ShardedOptimizer",
)


def _judge(world_sizes: tuple[int, ...], labels: tuple[str, ...], report: type[ZeroValuesReport]) -> RankJudge:
    cases = tuple(Case(label, (label,), right(label, report)) for label in labels)
    return by_trial(world_sizes, cases, trial, compare=compare, timeout_s=6.0)


ZERO_STEPS = (
    Exercise(
        name="05.zero_values",
        title="Your sharded optimizer, 1: the values",
        judge=_judge((2, 3), PLAIN, ZeroValuesReport),
        mistakes=mistakes.OF_VALUES,
        hints=(
            "To update one number, what does the optimizer need of the others? So what does a rank that updates only "
            "its part need before, and what does it owe the others after?",
            "In `__init__`: all weights in one flat tensor, padded so that it divides by the ranks. Then a parameter "
            "of your own with this rank's part, and an `optimizer_class` of that alone. In `step`: the mean of the "
            "gradients to the part, the inner step, and the parts of all into the parameters.",
            "`flat = torch.cat([p.detach().flatten() for p in self.parameters])`, `own = nn.Parameter(F.pad(flat, (0, "
            "-len(flat) % n)).chunk(n)[me.rank].clone())`, `self.inner = optimizer_class([own], **defaults)`. In "
            "`step`: `dist.reduce_scatter(own.grad, list(gradients.chunk(n)))`, `own.grad /= n`, `self.inner.step()`, "
            "`dist.all_gather(list(weights.chunk(n)), own.detach())`, and a `copy_` into each parameter.",
        ),
        forbidden=_FORBIDDEN,
        passed="The weights after four steps are those of one process, with the class and the settings that were "
        "given.",
    ),
    Exercise(
        name="05.zero_bytes",
        title="Your sharded optimizer, 2: bytes and messages",
        judge=_judge((2, 3), PLAIN, ZeroBytesReport),
        mistakes=mistakes.OF_BYTES,
        hints=(
            "An all-reduce is a reduce-scatter and an all-gather. Which half of it does your rank need before its "
            "step, and what is to be gathered after it?",
            "One reduce-scatter of the flat gradients, and one all-gather of the flat weights: two calls, however many "
            "parameters there are.",
            "`dist.reduce_scatter(own.grad, list(gradients.chunk(n)))` before the step, and "
            "`dist.all_gather(list(weights.chunk(n)), own.detach())` after it, where `gradients` and `weights` have "
            "all numbers in a row.",
        ),
        forbidden=_FORBIDDEN,
        passed="A step makes one reduce-scatter and one all-gather, which send as much as DDP's all-reduce.",
    ),
    Exercise(
        name="05.zero_memory",
        title="Your sharded optimizer, 3: memory",
        judge=_judge((4, 2), PLAIN, ZeroMemoryReport),  # of two ranks' parts, five are more than the model
        mistakes=mistakes.OF_MEMORY,
        hints=(
            "Between two steps, which tensors does your object lead to? How large is the storage under each?",
            "Keep this rank's part of the weights as a tensor of its own. What has all numbers in a row lives within "
            "`step`, as a local name.",
            "`.chunk(n)[me.rank]` is a view, and holds the whole flat tensor: `.clone()` it. Make `gradients` and "
            "`weights` anew in each `step`, and keep neither in `self`.",
        ),
        forbidden=_FORBIDDEN,
        passed="Beside the model a rank keeps its part of weights, gradient and states, and no step leaves more.",
    ),
    Exercise(
        name="05.zero_awkward",
        title="Your sharded optimizer, 4: awkward models",
        judge=_judge((2, 3, 1), tuple(SITUATIONS), ZeroMemoryReport),
        mistakes=mistakes.OF_AWKWARD,
        hints=(
            "A flat tensor has one dtype and one device, and every number of it has a gradient on every rank. For "
            "which parameters is that not so?",
            "Leave out what is frozen. Take zeros for a gradient that is `None`. Keep a flat part for each dtype, all "
            "in one inner optimizer. `param_groups` is the inner one's.",
            "`learning = [p for p in parameters if p.requires_grad]`; for each `dtype` in `dict.fromkeys(p.dtype for p "
            "in learning)` a part of its own; `torch.zeros_like(p) if p.grad is None else p.grad`; "
            "`self.param_groups = self.inner.param_groups`; and in `step` `p.copy_(part.view_as(p))`.",
        ),
        forbidden=_FORBIDDEN,
        passed="Your class is right with frozen, unused and strided parameters, two dtypes, a schedule, two models, "
        "and on one rank.",
    ),
)
