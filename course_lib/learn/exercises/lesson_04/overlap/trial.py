"""04.overlap: a few steps of backward with the learner's hooks on, and what is seen of them."""

from __future__ import annotations

import gc
import inspect
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.cluster.base.rank import Rank
from course_lib.learn.exercises.lesson_04.overlap.waits import watched_waits
from course_lib.learn.exercises.lesson_04.overlap.wrong_answers import Buckets
from course_lib.learn.exercises.lesson_04.tries import (
    KEPT,
    NOTHING,
    fact_by_fact,
    gradients_by_name,
    mixed_replica,
    replica,
    reseeded,
)
from course_lib.learn.judging.compare import short
from course_lib.learn.judging.mutation_guard import Kept
from course_lib.meter import Call

__all__ = [
    "AGAIN",
    "CALLS",
    "EACH",
    "EARLY",
    "FINISH",
    "GROWTH",
    "HOOKS",
    "INSIDE",
    "IN_PLACE",
    "KINDS",
    "ONE",
    "OTHERS",
    "WAITED",
    "WAITS",
    "compare",
    "right",
    "trial",
]

LAYERS, EACH, ONE = "a bucket for each layer", "a bucket for each gradient", "one bucket for everything"
UNEVEN = "buckets of unequal length, tied and frozen parameters"
KINDS = (LAYERS, EACH, UNEVEN, ONE)
METERED, STEPS = 3, 6  # the last steps run without the meter, which keeps what it has seen,
LONG = (UNEVEN,)  # and in these cases only
IN_PLACE = 2  # before this step gradients are set to zero, where before the others they are set to None
_LOOKS = 20
_ALL_REDUCE, _FUNCTION = "all_reduce", "a function"
_GENERATOR = "a generator: it has a `yield` in it, so calling it runs nothing of it"
FINISH = "what `start_early` returns"
EARLY, WAITS = "all-reduces begun when each gradient came", "waits inside backward"
CALLS, WAITED = "all-reduces in a step", "waits for all of them"
INSIDE = "all-reduces begun inside backward"  # this tells wrong answers apart; nobody is judged by it
OTHERS = "other calls than all-reduces"
AGAIN = "waits once more for those of an earlier step"
GROWTH = "numbers kept from one step to the next"
HOOKS = "hooks that came or went with a step"


def _model(kind: str, device: torch.device | str = "cpu") -> nn.Module:
    return mixed_replica(device) if kind == UNEVEN else replica(device)


def _batch(rank: int, step: int) -> Tensor:
    draw = torch.Generator().manual_seed(10 * rank + step)
    return torch.randn(5, 8, generator=draw, dtype=torch.float64)


def _backward(model: nn.Module, rank: int, step: int, device: torch.device | str = "cpu") -> None:
    model.zero_grad(set_to_none=step != IN_PLACE)
    model(_batch(rank, step).to(device)).square().mean().backward()


@lru_cache(maxsize=8)
def _order(kind: str) -> tuple[str, ...]:
    """The names of the parameters in the order in which their gradients come."""
    model, order = _model(kind), []
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(lambda _, name=name: order.append(name))
    _backward(model, 0, 0)
    return tuple(order)


def _sizes(kind: str) -> list[int]:
    count = len(_order(kind))
    if kind == UNEVEN:
        return [1, 3, count - 4]
    return {LAYERS: [2] * (count // 2), EACH: [1] * count, ONE: [count]}[kind]


def _buckets(model: nn.Module, kind: str) -> Buckets:
    """Parameters in the order of their gradients, in lists."""
    left = [model.get_parameter(name) for name in _order(kind)]
    return [[left.pop(0) for _ in range(size)] for size in _sizes(kind)]


def trial(answer: Callable[..., Any], me: Rank, kind: str) -> dict[str, Any]:
    model = _model(kind, me.device)
    buckets = _buckets(model, kind)
    lengths = [len(bucket) for bucket in buckets]
    kept = Kept(model=model, ignore=("gradients", "buffers", "hooks", "settings"))
    facts, finish = _under_the_meter(answer, me, model, buckets, kept)
    if finish is None:
        return facts
    if kind in LONG:
        facts[GROWTH] = _growth(model, me, finish)
        facts[f"the gradients of step {STEPS}"] = gradients_by_name(model)
    moved = [len(bucket) for bucket in buckets] != lengths
    facts[KEPT] = "the lists of parameters in `buckets`" if moved else kept.changes() or NOTHING
    return facts


def _under_the_meter(
    answer: Callable[..., Any], me: Rank, model: nn.Module, buckets: Buckets, kept: Kept
) -> tuple[dict[str, Any], Callable[[], Any] | None]:
    """What the first steps show, and ``finish``; None where what came back is no function, or where a step has changed
    what was to stay: the next step would meet that.
    """
    from course_lib.meter.communication.recorder import Recorder

    facts: dict[str, Any] = {FINISH: _FUNCTION, EARLY: [], WAITS: [], INSIDE: [], HOOKS: NOTHING}
    meters: list[Recorder] = []
    begun: list[int] = []

    def note(_: nn.Parameter) -> None:
        begun.extend(len(_all_reduces(meter.calls)) for meter in meters)

    for parameter in (parameter for bucket in buckets for parameter in bucket):
        parameter.register_post_accumulate_grad_hook(note)  # before the learner's hooks, so that it runs first
    with Recorder(me.rank) as recorder, watched_waits() as waits:
        meters.append(recorder)
        seed = torch.initial_seed()
        finish = answer(me, buckets)
        if not callable(finish) or inspect.isgeneratorfunction(finish):
            return {FINISH: short(finish) if not callable(finish) else _GENERATOR}, None
        for step in range(METERED):
            begun.clear()
            hooked = Kept(model=model, ignore=("gradients", "buffers", "weights", "flags", "modes", "settings"))
            waits.begin(step)
            before, waited = recorder.calls, waits.count
            _backward(model, me.rank, step, me.device)
            facts[EARLY].append([count - len(_all_reduces(before)) for count in begun])
            facts[WAITS].append(waits.count - waited)
            facts[INSIDE].append(len(recorder.calls) - len(before))
            finish()
            facts[f"the gradients of step {step + 1}"] = gradients_by_name(model)
            facts[HOOKS] = hooked.changes() or facts[HOOKS]
            if changed := kept.changes() or reseeded(seed):
                return facts | {KEPT: changed}, None
    meters.clear()
    left = len(recorder.calls) - waits.num_waited
    is_waited = left <= 0 or (f"{left} of {len(recorder.calls)}" if waits.num_waited else False)
    others = [call.operation for call in recorder.calls if call.operation != _ALL_REDUCE]
    facts |= {CALLS: len(_all_reduces(recorder.calls)) / METERED, OTHERS: others}
    return facts | {WAITED: is_waited, AGAIN: waits.is_again}, finish


def _all_reduces(calls: Sequence[Call]) -> list[Call]:
    return [call for call in calls if call.operation == _ALL_REDUCE]


def _growth(model: nn.Module, me: Rank, finish: Callable[[], Any]) -> int:
    """How many more numbers lie in tensors after the last step than two steps before.

    A thread of gloo may let go of the last all-reduce a moment after the wait for it, so look again before it counts.
    """
    counts = []
    for step in range(METERED, STEPS):
        _backward(model, me.rank, step, me.device)
        finish()
        counts.append(_numbers_alive())
    for _ in range(_LOOKS):
        if counts[-1] <= counts[0]:
            return 0
        time.sleep(0.01)
        counts[-1] = _numbers_alive()
    return counts[-1] - counts[0]


def _numbers_alive() -> int:
    gc.collect()
    return sum(thing.numel() for thing in gc.get_objects() if type(thing) in (Tensor, nn.Parameter))


# -- what is right ----------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _means(kind: str, world_size: int, step: int) -> dict[str, Tensor]:
    models = [_model(kind) for _ in range(world_size)]
    for rank, model in enumerate(models):
        _backward(model, rank, step)
    names = _order(kind)
    return {
        name: torch.stack([model.get_parameter(name).grad for model in models]).mean(dim=0)  # type: ignore[misc]
        for name in names
    }


def _complete_before(kind: str) -> list[int]:
    """How many buckets are complete before each gradient: they fill one after the other."""
    return [number for number, size in enumerate(_sizes(kind)) for _ in range(size)]


def compare(expected: dict[str, Any], got: Any) -> str:
    """Fact by fact; most are told in a sentence."""
    found = fact_by_fact()(expected, got)
    name = found.partition(":")[0]
    if name in _SENTENCES and isinstance(got, dict):
        return _SENTENCES[name](expected, got)
    return found


def _counted(operations: Sequence[str]) -> str:
    """Operations of all steps, as what each of them had on average: "1 barrier"."""
    return ", ".join(f"{count / METERED:g} {name}" for name, count in Counter(operations).items())


def _early(expected: dict[str, Any], got: dict[str, Any]) -> str:
    """The first gradient at which other all-reduces had begun than should have."""
    for step, (wanted, came) in enumerate(zip(expected[EARLY], got[EARLY], strict=True), start=1):
        if len(wanted) != len(came):
            return f"in step {step}, {len(came)} gradients came and {len(wanted)} were expected"
        for number, (want, have) in enumerate(zip(wanted, came, strict=True), start=1):
            if want != have:
                return (
                    f"in step {step}, when gradient {number} of {len(wanted)} came, {want} of the buckets "
                    f"{'was' if want == 1 else 'were'} complete, and {have} all-reduce{'s' * (have != 1)} had begun"
                )
    return ""


def _of_waits(waits: Sequence[int]) -> str:
    """The first step whose backward waited."""
    step, count = next((step, count) for step, count in enumerate(waits, start=1) if count)
    return f"in step {step}, backward waited {count} time{'s' * (count > 1)} for an all-reduce; only `finish` waits"


_SENTENCES: dict[str, Callable[[dict[str, Any], dict[str, Any]], str]] = {
    FINISH: lambda expected, got: f"`start_early` is to return a function, `finish`, and what came is {got[FINISH]}",
    EARLY: _early,
    WAITS: lambda expected, got: _of_waits(got[WAITS]),
    CALLS: lambda expected, got: (
        f"{METERED} steps made {METERED * got[CALLS]:g} all-reduces together, where {METERED * expected[CALLS]:g} are "
        "needed: one for each bucket and step"
    ),
    OTHERS: lambda expected, got: (
        f"besides the all-reduces of the buckets, each step made calls that nothing needs: {_counted(got[OTHERS])}"
    ),
    WAITED: lambda expected, got: (
        f"{got[WAITED]} calls were never waited for" if got[WAITED] else "none of the calls was ever waited for"
    ),
    AGAIN: lambda expected, got: "calls of an earlier step were waited for once more",
}


def right(kind: str) -> Callable[[int, int], dict[str, Any]]:
    def expected(rank: int, world_size: int) -> dict[str, Any]:
        steps = (*range(METERED), *([STEPS - 1] if kind in LONG else []))
        means = {f"the gradients of step {step + 1}": _means(kind, world_size, step) for step in steps}
        return {
            FINISH: _FUNCTION,
            KEPT: NOTHING,
            HOOKS: NOTHING,
            **means,
            EARLY: [_complete_before(kind)] * METERED,
            WAITS: [0] * METERED,
            CALLS: float(len(_sizes(kind))),
            OTHERS: [],
            WAITED: True,
            AGAIN: False,
            **({GROWTH: 0} if kind in LONG else {}),
        }

    return expected
