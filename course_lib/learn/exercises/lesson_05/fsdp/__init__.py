"""05.fsdp: a fully sharded wrapper of one's own, in six steps; each demands what those before it demand, and more."""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Case, Exercise
from course_lib.learn.exercises.lesson_05.fsdp import mistakes
from course_lib.learn.exercises.lesson_05.fsdp.reports import (
    FsdpBytesReport,
    FsdpMemoryReport,
    FsdpPrefetchReport,
    FsdpToolsReport,
    FsdpValuesReport,
)
from course_lib.learn.exercises.lesson_05.fsdp.right import right
from course_lib.learn.exercises.lesson_05.fsdp.trial import trial
from course_lib.learn.judging.judge import RankJudge, by_trial
from course_lib.learn.judging.report import compare

__all__ = ["FSDP_STEPS"]

_FORBIDDEN = (
    "torch.distributed.fsdp.FullyShardedDataParallel",
    "torch.distributed.fsdp.fully_shard",
    "course_lib.parallel.sharded.FullySharded",
)
_PLAIN = ("layers", "blocks, and a rest", "an input by name")
_WIDE = "ten wide layers"
_AHEAD = ("nothing ahead", "two ahead")
_TOOLS = ("a clip", "weights of another run", "buffers")
_AWKWARD = (
    "frozen parameters",
    "two dtypes in a unit",
    "tied weights",
    "a layer that odd ranks do not use",
    "weights that are not contiguous",
    "two forward passes, and one backward",
    "two backward passes, and one step",
    "a unit that gives two tensors, twice",
    "an error in forward",
    "two models at the same time",
)


def _judge(world_sizes: tuple[int, ...], labels: tuple[str, ...], report: type[FsdpValuesReport]) -> RankJudge:
    cases = tuple(Case(label, (label,), right(label, report)) for label in labels)
    return by_trial(world_sizes, cases, trial, compare=compare, timeout_s=8.0)


FSDP_STEPS = (
    Exercise(
        name="05.fsdp_values",
        title="Your fully sharded wrapper, 1: the values",
        judge=_judge((2, 3), _PLAIN, FsdpValuesReport),
        mistakes=mistakes.OF_VALUES,
        hints=(
            "What does a layer compute with, and what is this rank to keep? What lies between the two, and who could "
            "take the gradient back over it?",
            "Cut each unit's numbers into equal parts, as in 05f, and keep this rank's as an `nn.Parameter`. Before "
            "the unit's forward a `torch.autograd.Function` makes the whole row of the part: an all-gather forward, "
            "a reduce-scatter backward. Views of the row take the parameters' places in the module.",
            "In `__init__`, for each parameter of a unit: `del owner._parameters[name]`. In "
            "`unit.register_forward_pre_hook(...)`: `row = Gather.apply(part, ...)`, then `setattr(owner, name, "
            "piece.view(shape))` for the pieces of `row.split(sizes)`. `Gather.backward` gets the gradient of all.",
        ),
        forbidden=_FORBIDDEN,
        passed="Losses and weights of one process in three steps, and `parameters()` have this rank's part alone.",
    ),
    Exercise(
        name="05.fsdp_bytes",
        title="Your fully sharded wrapper, 2: bytes and messages",
        judge=_judge((2, 3), _PLAIN, FsdpBytesReport),
        mistakes=mistakes.OF_BYTES,
        hints=(
            "How many calls does a unit need in forward, and how many in backward, however many parameters it has?",
            "One row for all parameters of a unit: one all-gather before its forward, one more before its backward at "
            "most, one reduce-scatter of its gradients.",
            "`dist.all_gather(list(row.chunk(n)), part.detach())`, and in backward `dist.reduce_scatter(own, "
            "list(grad.chunk(n)))`, where `row` has all numbers of the unit and zeros behind them.",
        ),
        forbidden=_FORBIDDEN,
        passed="A unit makes at most three calls, which send as much as two all-gathers and a reduce-scatter of the "
        "model.",
    ),
    Exercise(
        name="05.fsdp_memory",
        title="Your fully sharded wrapper, 3: memory",
        judge=_judge((3,), (*_PLAIN, _WIDE), FsdpMemoryReport),
        mistakes=mistakes.OF_MEMORY,
        hints=(
            "When a unit's forward is over, who still holds its whole row? You cannot take it away from autograd. What "
            "can you take away from the row?",
            "A row lives as long as the wrapper, and its storage comes and goes. Empty it in the unit's forward hook, "
            "and fill it when the gradient of the unit's output is there. Empty it again when the row's own gradient "
            "is.",
            "`row.untyped_storage().resize_(0)` and `resize_(num_bytes)`; gather into `row.data`, so that autograd "
            "counts no change, and give `row.detach()` out of `Gather.forward`. In the forward hook: "
            "`output.register_hook(lambda _: fill_again())`.",
        ),
        forbidden=_FORBIDDEN,
        passed="Between steps and after forward this rank holds only its parts, and while a layer computes, a few "
        "units.",
    ),
    Exercise(
        name="05.fsdp_prefetch",
        title="Your fully sharded wrapper, 4: time hidden",
        judge=_judge((3,), (*_PLAIN, _WIDE, *_AHEAD), FsdpPrefetchReport),
        mistakes=mistakes.OF_PREFETCH,
        hints=(
            "While a unit computes the link is idle. What could travel then, in forward, and in backward?",
            "Start the all-gathers of this unit and of the next `prefetch`, then wait for this unit's own. In backward "
            "the next one is the one before.",
            "`self.work = dist.all_gather(..., async_op=True)` in `start()`, which does nothing when it is under way "
            "or whole; `self.work.wait()` in `wait()`. What was started and is not needed is waited for before it is "
            "let go.",
        ),
        forbidden=_FORBIDDEN,
        passed="When a unit computes, the next ones are under way as `prefetch` says, forward and backward.",
    ),
    Exercise(
        name="05.fsdp_tools",
        title="Your fully sharded wrapper, 5: a clip and a checkpoint",
        judge=_judge((3, 2), (*_PLAIN, _WIDE, *_TOOLS), FsdpToolsReport),
        mistakes=mistakes.OF_TOOLS,
        hints=(
            "Of which numbers is the norm, and who has them? What does a file hold that fits any number of ranks?",
            "The square of a norm is a sum, and sums of parts can be added over ranks: one number, one all-reduce. To "
            "load, lay the whole tensors in a row as `__init__` does, and take this rank's part.",
            "`total = sum(p.grad.square().sum() for p in ...)`, `dist.all_reduce(total)`, `norm = total.sqrt()`, and "
            "each gradient `*= (max_norm / (norm + 1e-6)).clamp(max=1)`. In `load_full_state_dict`: "
            "`part.copy_(padded(torch.cat([...])).chunk(n)[me.rank])`, and the buffers.",
        ),
        forbidden=_FORBIDDEN,
        passed="The clip has the model's norm on every rank, and a state of another run is loaded whole, buffers too.",
    ),
    Exercise(
        name="05.fsdp_awkward",
        title="Your fully sharded wrapper, 6: awkward models",
        judge=_judge((3, 1), (*_PLAIN, _WIDE, *_TOOLS, *_AWKWARD), FsdpToolsReport),
        mistakes=mistakes.OF_AWKWARD,
        hints=(
            "A row has one dtype, and all of its numbers learn. A unit has one forward at a time. Where not?",
            "A row for each kind of parameter, `(dtype, requires_grad)`. One place in one row for what stands twice. "
            "Nothing of a single forward kept in the unit but whether it is whole.",
            "`kinds.setdefault((p.dtype, p.requires_grad), []).append(p)`; names by "
            "`named_parameters(remove_duplicate=False)`; `register_forward_hook(..., always_call=True)`; a hook on "
            "each tensor of `torch.utils._pytree.tree_leaves(output)`.",
        ),
        forbidden=_FORBIDDEN,
        passed="Your class is right with frozen, tied and unused parameters, two dtypes, several passes, an error, "
        "two models, and on one rank.",
    ),
)
