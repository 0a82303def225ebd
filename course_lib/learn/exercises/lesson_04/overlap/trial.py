"""04.overlap: a few steps of backward with the learner's hooks on, and what is seen of them."""

from __future__ import annotations

import gc
import inspect
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.cluster.base.rank import Rank
from course_lib.learn.exercises.lesson_04.overlap.report import METERED, EarlyReport
from course_lib.learn.exercises.lesson_04.overlap.waits import watched_waits
from course_lib.learn.exercises.lesson_04.overlap.wrong_answers import Buckets
from course_lib.learn.exercises.lesson_04.tries import gradients_by_name, mixed_replica, replica, reseeded
from course_lib.learn.judging.compare import short
from course_lib.learn.judging.mutation_guard import Kept
from course_lib.learn.judging.report import NOTHING
from course_lib.meter import Call

__all__ = ["EACH", "IN_PLACE", "KINDS", "ONE", "right", "trial"]

LAYERS, EACH, ONE = "a bucket for each layer", "a bucket for each gradient", "one bucket for everything"
UNEVEN = "buckets of unequal length, tied and frozen parameters"
KINDS = (LAYERS, EACH, UNEVEN, ONE)
STEPS = 6  # those after the metered ones run without the meter, which keeps what it has seen,
LONG = (UNEVEN,)  # and in these cases only
IN_PLACE = 2  # before this step gradients are set to zero, where before the others they are set to None
_LOOKS = 20
_ALL_REDUCE = "all_reduce"
_GENERATOR = "a generator: it has a `yield` in it, so calling it runs nothing of it"


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


def trial(answer: Callable[..., Any], me: Rank, kind: str) -> EarlyReport:
    model = _model(kind, me.device)
    buckets = _buckets(model, kind)
    lengths = [len(bucket) for bucket in buckets]
    kept = Kept(model=model, ignore=("gradients", "buffers", "hooks", "settings"))
    seen, finish = _under_the_meter(answer, me, model, buckets, kept)
    if finish is None:
        return seen
    if kind in LONG:
        growth = _growth(model, me, finish)
        seen = replace(seen, growth=growth, gradients={**seen.gradients, STEPS: gradients_by_name(model)})
    moved = [len(bucket) for bucket in buckets] != lengths
    return replace(seen, kept="the lists of parameters in `buckets`" if moved else kept.changes() or NOTHING)


def _under_the_meter(
    answer: Callable[..., Any], me: Rank, model: nn.Module, buckets: Buckets, kept: Kept
) -> tuple[EarlyReport, Callable[[], Any] | None]:
    """What the first steps show, and ``finish``; None where what came back is no function, or where a step has changed
    what was to stay: the next step would meet that.
    """
    from course_lib.meter.communication.recorder import Recorder

    seen = EarlyReport(early=[], waits=[], inside=[], gradients={})
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
            return EarlyReport(finish=short(finish) if not callable(finish) else _GENERATOR), None
        for step in range(METERED):
            begun.clear()
            hooked = Kept(model=model, ignore=("gradients", "buffers", "weights", "flags", "modes", "settings"))
            waits.begin(step)
            before, waited = recorder.calls, waits.count
            _backward(model, me.rank, step, me.device)
            seen.early.append([count - len(_all_reduces(before)) for count in begun])
            seen.waits.append(waits.count - waited)
            seen.inside.append(len(recorder.calls) - len(before))
            finish()
            seen.gradients[step + 1] = gradients_by_name(model)
            seen = replace(seen, hooks=hooked.changes() or seen.hooks)
            if changed := kept.changes() or reseeded(seed):
                return replace(seen, kept=changed), None
    meters.clear()
    left = len(recorder.calls) - waits.num_waited
    return replace(
        seen,
        num_calls=len(_all_reduces(recorder.calls)) / METERED,
        others=[call.operation for call in recorder.calls if call.operation != _ALL_REDUCE],
        waited=left <= 0 or (f"{left} of {len(recorder.calls)}" if waits.num_waited else False),
        again=waits.is_again,
    ), finish


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


def right(kind: str) -> Callable[[int, int], EarlyReport]:
    def expected(rank: int, world_size: int) -> EarlyReport:
        steps = (*range(METERED), *([STEPS - 1] if kind in LONG else []))
        report = EarlyReport(
            gradients={step + 1: _means(kind, world_size, step) for step in steps},
            early=[_complete_before(kind)] * METERED,
            waits=[0] * METERED,
            num_calls=float(len(_sizes(kind))),
            others=[],
            waited=True,
            again=False,
        )
        return replace(report, growth=0) if kind in LONG else report

    return expected
