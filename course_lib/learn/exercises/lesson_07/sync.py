"""07.sync: two pipelines side by side, whose gradients are averaged once for a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from course_lib.cluster import Rank
from course_lib.learn.exercise import Case, Evidence, Exercise, Mistake
from course_lib.learn.exercises.lesson_04.tries import (
    all_got,
    gradient_vector,
    times_sent,
    weights,
)
from course_lib.learn.judge import by_trial
from course_lib.parallel.pipeline import Pipeline
from course_lib.schedules import one_f_one_b

__all__ = ["SYNC"]

_WIDTH, _NUM_SAMPLES = 6, 16
_PIPELINES, _SAME_STAGE = ((0, 1), (2, 3)), ((0, 2), (1, 3))
_GRADIENTS, _WEIGHTS, _STEPS = "the gradients", "the weights", "steps of the pipeline"
_SENT, _EARLY = "all-reduced, in sizes of the gradients", "all-reduces before the step"
Answer = Callable[[Any, Any, Callable[[], Any]], Any]


def _stages() -> list[nn.Module]:
    """Two stages of the same shape, with other weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        return [nn.Sequential(nn.Linear(_WIDTH, _WIDTH), nn.Tanh()).double() for _ in range(2)]


def _batch() -> tuple[Tensor, Tensor]:
    made = torch.Generator().manual_seed(7)
    x, y = (torch.randn(_NUM_SAMPLES, _WIDTH, generator=made, dtype=torch.float64) for _ in range(2))
    return x, y


def _trial(answer: Answer, me: Rank, num_micro_batches: int) -> dict[str, Any]:
    """Two pipelines of two stages; the answer takes the step and does what belongs to it."""
    from course_lib.meter.recorder import Recorder

    replica, stage = divmod(me.rank, 2)
    group = [dist.new_group(list(ranks)) for ranks in _SAME_STAGE][stage]
    schedule, ranks = one_f_one_b(2, num_micro_batches), _PIPELINES[replica]
    model = Pipeline(me, _stages(), schedule, nn.functional.mse_loss, ranks=ranks)
    x, y = (part.chunk(2)[replica].to(me.device) for part in _batch())
    steps = []

    def step() -> Tensor | None:
        steps.append(len(recorder.calls))
        return model.step(x, y)

    before = weights(model.stages)
    with Recorder(me.rank) as recorder:
        answer(model, group, step)
    reduces = [call for call in recorder.calls if call.operation == "all_reduce"]
    return {
        _GRADIENTS: gradient_vector(model.stages),
        _WEIGHTS: "as they were" if torch.equal(before, weights(model.stages)) else "changed",
        _STEPS: len(steps),
        _EARLY: steps[0] if steps else 0,
        _SENT: times_sent(reduces, sum(p.nbytes for p in model.parameters())),
    }


def _right(rank: int, world_size: int) -> dict[str, Any]:
    """By autograd, uncut, over the whole batch."""
    stages, (x, y) = _stages(), _batch()
    nn.functional.mse_loss(nn.Sequential(*stages)(x), y).backward()
    gradients = gradient_vector(stages[rank % 2])
    return {_GRADIENTS: gradients, _WEIGHTS: "as they were", _STEPS: 1, _EARLY: 0, _SENT: 1.0}


# -- usual wrong answers ----------------------------------------------------------------------------------------


def _reduce_all(tensors: list[Tensor], group: Any, op: Any = dist.ReduceOp.AVG) -> None:
    for tensor in tensors:
        dist.all_reduce(tensor, op=op, group=group)


def _gradients(model: Any) -> list[Tensor]:
    return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


def _as_they_come(model: Any, group: Any, step: Callable[[], Any]) -> None:
    def average(parameter: nn.Parameter) -> None:
        assert parameter.grad is not None
        _reduce_all([parameter.grad], group)

    hooks = [parameter.register_post_accumulate_grad_hook(average) for parameter in model.parameters()]
    step()
    for hook in hooks:
        hook.remove()


def _twice(model: Any, group: Any, step: Callable[[], Any]) -> None:
    _as_they_come(model, group, step)
    _reduce_all(_gradients(model), group)


def _too_early(model: Any, group: Any, step: Callable[[], Any]) -> None:
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    _reduce_all(_gradients(model), group)
    step()


def _sums(model: Any, group: Any, step: Callable[[], Any]) -> None:
    step()
    _reduce_all(_gradients(model), group, dist.ReduceOp.SUM)


def _by_four(model: Any, group: Any, step: Callable[[], Any]) -> None:
    _sums(model, group, step)
    for gradient in _gradients(model):
        gradient /= 4


def _with_everybody(model: Any, group: Any, step: Callable[[], Any]) -> None:
    step()
    _reduce_all(_gradients(model), None)


def _not_at_all(model: Any, group: Any, step: Callable[[], Any]) -> None:
    step()


def _averages_weights(model: Any, group: Any, step: Callable[[], Any]) -> None:
    step()
    _reduce_all([parameter.data for parameter in model.parameters()], group)


def _no_step(model: Any, group: Any, step: Callable[[], Any]) -> None:
    _reduce_all(_gradients(model), group)


def _several_steps(model: Any, group: Any, step: Callable[[], Any]) -> None:
    for _ in range(2):
        step()
        _reduce_all(_gradients(model), group)


def _sent(check: Callable[[float, int], bool]) -> Callable[[Evidence], bool]:
    """What was all-reduced, and in how many steps, fits on every rank, and nothing was raised."""
    return lambda evidence: (
        evidence.error is None
        and all(
            check(sent, steps)
            for sent, steps in zip(all_got(evidence, _SENT), all_got(evidence, _STEPS), strict=True)
        )
    )


SYNC = Exercise(
    name="07.sync",
    title="Averaged once",
    judge=by_trial(
        (4,),
        (
            Case("two pipelines and one micro-batch", (1,), _right),
            Case("two pipelines and four micro-batches", (4,), _right),
        ),
        _trial,
    ),
    mistakes=(
        Mistake(
            "no-step",
            "Nobody took the step before the gradients were asked for. Call `step()` once, with its brackets: it runs "
            "all micro-batches there and back.",
            _no_step,
            lambda evidence: 0 in all_got(evidence, _STEPS) or "NoneType" in str(evidence.error),
        ),
        Mistake(
            "several-steps",
            "`step()` was called more than once, so the batch was learned more than once. One call runs all of its "
            "micro-batches.",
            _several_steps,
            lambda evidence: max(all_got(evidence, _STEPS), default=0) > 1,
        ),
        Mistake(
            "for-each-micro-batch",
            "The gradients are right, and they travel once for every micro-batch: four micro-batches, four times the "
            "bytes. Let them add up on their own rank, and average when `step()` has returned.",
            _as_they_come,
        ),
        Mistake(
            "both",
            "Averaged after the step, as it should be, and the hooks average for every micro-batch as well. Leave the "
            "hooks away.",
            _twice,
        ),
        Mistake(
            "too-early",
            "You average before `step()`. There is nothing in the gradients yet; each pipeline then keeps those of its "
            "own half of the batch.",
            _too_early,
        ),
        Mistake(
            "sums",
            "The gradients are twice too large. Each pipeline's loss is the mean over *its* half of the batch; the "
            "mean over both halves is the mean of the two: `dist.ReduceOp.AVG`.",
            _sums,
        ),
        Mistake(
            "divided-by-all-ranks",
            "The gradients are half of what they should be: a sum over *two* ranks, divided by four. Only the ranks of "
            "`group` hold this stage; `dist.ReduceOp.AVG` counts them for you.",
            _by_four,
        ),
        Mistake(
            "with-everybody",
            "Without `group=group` all four ranks average, and ranks 0 and 1 hold *different* stages. A rank averages "
            "with the one that holds the same stage.",
            _with_everybody,
        ),
        Mistake(
            "averages-weights",
            "You average the weights. They are equal already; it is the gradients that differ.",
            _averages_weights,
        ),
        Mistake(
            "not-at-all",
            "Cheap, and wrong: nothing travels between the pipelines, so each learns from its half of the batch and "
            "they drift apart.",
            _not_at_all,
            _sent(lambda sent, steps: sent == 0 and steps == 1),
        ),
    ),
    hints=(
        "What do the gradients on a rank hold after `step()`, and what would they hold after each of its "
        "micro-batches?",
        "No hooks. Take the step first; then go through `model.parameters()` and average each gradient over the group.",
        "step(); then for each parameter: dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG, group=group)",
    ),
    passed="The gradients of the whole batch on every rank, and they travelled once, however many micro-batches "
    "there are.",
)
