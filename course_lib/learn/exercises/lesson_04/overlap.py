"""04.overlap: the all-reduce of a bucket starts while backward goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch._C._distributed_c10d import Work

from course_lib.cluster import Rank
from course_lib.learn.exercise import Case, Evidence, Exercise, Mistake
from course_lib.learn.exercises.lesson_04.tries import all_got, gradient_vector, replica
from course_lib.learn.exercises.lesson_04.wrong_overlaps import (
    Buckets,
    by_the_library,
    hooks,
    never_sends,
)
from course_lib.learn.judge import by_trial

__all__ = ["OVERLAP"]

_LAYERS, _EACH, _ONE = "a bucket for each layer", "a bucket for each gradient", "one bucket for everything"
_STEPS = 2
_EARLY, _WAITS = "under way when the last gradient came", "waits inside backward"
_CALLS, _WAITED = "all-reduces in a step", "waits for all of them"
_AGAIN = "waits once more for those of the first step"


def _buckets(model: nn.Module, kind: str) -> Buckets:
    """Parameters from the last layer to the first, in lists."""
    backwards = list(model.parameters())[::-1]
    if kind == _EACH:
        return [[parameter] for parameter in backwards]
    return [backwards] if kind == _ONE else [backwards[at : at + 2] for at in range(0, len(backwards), 2)]


def _batch(rank: int, step: int) -> Tensor:
    draw = torch.Generator().manual_seed(10 * rank + step)
    return torch.randn(5, 8, generator=draw, dtype=torch.float64)


def _trial(answer: Callable[..., Any], me: Rank, kind: str) -> dict[str, Any]:
    """Two steps of backward with the learner's hooks on; what was under way when the last gradient came."""
    from course_lib.meter.recorder import Recorder

    model = replica(me.device)
    buckets = _buckets(model, kind)
    facts: dict[str, Any] = {_EARLY: [], _WAITS: []}
    waits: list[Work] = []
    with Recorder(me.rank) as recorder, _counted_waits(waits):
        seen: list[int] = []
        arrived: list[None] = []

        def note(_: nn.Parameter) -> None:
            arrived.append(None)
            if len(arrived) == len(list(model.parameters())):
                seen.append(len(recorder.calls))

        for parameter in model.parameters():  # before the learner's hooks, so that this one runs first
            parameter.register_post_accumulate_grad_hook(note)
        finish = answer(me, buckets)
        for step in range(_STEPS):
            model.zero_grad()
            before, waited = len(recorder.calls), len(waits)
            arrived.clear()
            seen.clear()
            model(_batch(me.rank, step).to(me.device)).square().mean().backward()
            facts[_EARLY].append(seen[0] - before)
            facts[_WAITS].append(len(waits) - waited)
            finish()
            if step == 0:
                facts["gradients of the first step"] = gradient_vector(model)
                of_the_first = list(waits)
    facts["gradients of the second step"] = gradient_vector(model)
    facts[_CALLS] = len(recorder.calls) / _STEPS
    facts[_WAITED] = len(waits) >= len(recorder.calls)
    facts[_AGAIN] = any(work is old for work in waits[len(of_the_first) :] for old in of_the_first)
    return facts


@contextmanager
def _counted_waits(waits: list[Work]) -> Iterator[None]:
    """Every ``work.wait()`` puts its ``work`` in the list."""
    plain_wait = Work.wait

    def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
        waits.append(work)
        return plain_wait(work, *args, **kwargs)

    Work.wait = wait  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        Work.wait = plain_wait  # type: ignore[method-assign]


def _right(kind: str) -> Callable[[int, int], dict[str, Any]]:
    def expected(rank: int, world_size: int) -> dict[str, Any]:
        model = replica()
        count = len(_buckets(model, kind))
        means = []
        for step in range(_STEPS):
            model.zero_grad()
            batches = torch.cat([_batch(each, step) for each in range(world_size)])
            model(batches).square().mean().backward()
            means.append(gradient_vector(model))
        return {
            "gradients of the first step": means[0],
            "gradients of the second step": means[1],
            _EARLY: [count - 1] * _STEPS,
            _WAITS: [0] * _STEPS,
            _CALLS: float(count),
            _WAITED: True,
            _AGAIN: False,
        }

    return expected


# -- what usual wrong answers show -------------------------------------------------------------------------------


def _fact(name: str, says: Callable[[Any], bool]) -> Callable[[Evidence], bool]:
    return lambda evidence: evidence.error is None and all(map(says, all_got(evidence, name)))


def _no_early(evidence: Evidence) -> bool:
    """Whether the gradients are right, and no call was made before the end of backward."""
    counts = all_got(evidence, _EARLY)
    right = all(o.difference.startswith(f"under '{_EARLY}") for o in evidence.wrong)
    return evidence.error is None and right and all(not any(steps) for steps in counts)


def _asks_none(evidence: Evidence, *, wait: bool) -> bool:
    """Whether something was asked of None: ``wait``, or else what one asks of a gradient."""
    error = evidence.error
    if error is None or "NoneType" not in error.message or "not callable" in error.message:
        return False
    return ("'wait'" in error.message) == wait


OVERLAP = Exercise(
    name="04.overlap",
    title="Buckets that leave while backward goes on",
    judge=by_trial(
        (2, 4),
        tuple(Case(kind, (kind,), _right(kind)) for kind in (_LAYERS, _EACH, _ONE)),
        _trial,
        timeout_s=5.0,
    ),
    mistakes=(
        Mistake(
            "one-call-a-gradient",
            "Each gradient travels alone, in a call of its own: the buckets are not used. Wait until all gradients of "
            "a bucket are there, `torch.cat` them to one flat tensor, and all-reduce that.",
            hooks(flat=False),
            lambda evidence: (
                evidence.error is None
                and next(o.got[_CALLS] for o in evidence.outcomes if o.case.startswith(_ONE)) > 1
            ),
        ),
        Mistake(
            "never-sends",
            "No all-reduce was made, so every rank keeps its own gradients. Does `on_gradient` count each gradient "
            "that comes? It starts the call when the count is the length of its bucket.",
            never_sends,
            _fact(_CALLS, lambda calls: calls == 0),
        ),
        Mistake(
            "after-backward",
            "The means are right, and nothing was under way when the last gradient came: all calls are made after "
            "backward, and none of their time is hidden. Start a bucket's all-reduce in the hook of its last gradient.",
            hooks(early=False),
            _no_early,
        ),
        Mistake(
            "waits-in-the-hook",
            "Your hook waits until its all-reduce is done, and backward waits with it. With `async_op=True` "
            "the call returns at once; keep what it returns, and wait in `finish`.",
            hooks(wait_in_hook=True),
            _fact(_WAITS, lambda steps: sum(steps) > 0),
        ),
        Mistake(
            "reads-before-it-is-there",
            "`finish` takes the result of an all-reduce without waiting for it, so it reads whatever is there by then. "
            "Call `work.wait()` first, for every bucket.",
            hooks(wait_at_end=False),
            _fact(_WAITED, lambda waited: not waited),
        ),
        Mistake(
            "keeps-what-is-done",
            "In the second step you waited once more for the calls of the first, whose results are old by then. What "
            "`finish` has dealt with it must forget, or each step takes longer than the one before and no flat tensor "
            "is ever given back: `under_way.clear()`.",
            hooks(clear=False),
            _fact(_AGAIN, bool),
        ),
        Mistake(
            "works-once",
            "The first step is right and the second is not: the buckets do not begin afresh. Set your counts back when "
            "a bucket leaves.",
            hooks(reset=False),
            lambda evidence: (
                evidence.error is None
                and all(counts[0] != counts[1] for counts in all_got(evidence, _EARLY)[:2])
            ),
        ),
        Mistake(
            "leaves-too-soon",
            "A bucket left before all of its gradients were there. Count the gradients of a bucket as they come, start "
            "when the count is its length, `len(buckets[number])`, and set the count back for the next step.",
            hooks(starts_at=lambda size: 1),
            lambda evidence: _asks_none(evidence, wait=False),
        ),
        Mistake(
            "without-async-op",
            "Without `async_op=True` an all-reduce waits on the spot and returns None, which has no `wait()`. With it, "
            "the call returns at once, and gives you something to wait for in `finish`.",
            hooks(asynchronous=False),
            lambda evidence: _asks_none(evidence, wait=True),
        ),
        Mistake(
            "sum-not-mean",
            "You have the sum of the ranks' gradients. Divide by `me.world_size`, once, before you copy it back.",
            hooks(divide=False),
        ),
        Mistake(
            "not-copied-back",
            "The means were computed and are lost: `torch.cat` made a copy, and the optimizer reads `parameter.grad`. "
            "Cut the flat tensor into the parameters' sizes and copy each part back.",
            hooks(copy_back=False),
        ),
    ),
    hints=(
        "A hook is called with its parameter as soon as that gradient is there. What has to be remembered, so that the "
        "hook knows that its bucket is complete?",
        "For each bucket a count of gradients that have come. When it reaches the length of the bucket: set it back, "
        "`flat = torch.cat([p.grad.flatten() for p in bucket])`, start `dist.all_reduce(flat, async_op=True)`, and "
        "keep (work, flat, bucket) for `finish`.",
        "In `finish`: for each (work, flat, bucket): `work.wait()`, `flat /= me.world_size`, then for each p and part "
        "in zip(bucket, flat.split([p.numel() for p in bucket])): `p.grad.copy_(part.view_as(p))`; clear the list.",
    ),
    forbidden=(
        "torch.nn.parallel.DistributedDataParallel",
        "course_lib.parallel.data.DistributedDataParallel",
        "course_lib.parallel.data.all_reduce_buckets",
    ),
    forbidden_example=by_the_library,
    passed="One call a bucket, all but the last of them under way before the last gradient was there, and no wait "
    "inside backward.",
)
