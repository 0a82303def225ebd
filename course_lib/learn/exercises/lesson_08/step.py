"""One forward and one backward pass of an answer on a rank, and all that can be seen of it from outside."""

from __future__ import annotations

import gc
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from course_lib.cluster.base.rank import Rank
from course_lib.learn.judging.compare import short
from course_lib.learn.judging.failure import says_your_turn
from course_lib.learn.judging.mutation_guard import Kept
from course_lib.learn.sandbox.call_watcher import watch
from course_lib.meter import Call

__all__ = [
    "AS_IT_WAS",
    "GOES_BACK",
    "NOT_A_TENSOR",
    "NO_GRADIENT",
    "UNWRITTEN",
    "Several",
    "StepSeen",
    "seen_again",
    "take_step",
]

NO_GRADIENT, UNWRITTEN = "none came", "`backward` still raises its `NotImplementedError`"
_LOOKS_FOR_MORE = 2  # ranks
_SETTLE_S = 0.5
NOT_A_TENSOR, AS_IT_WAS = "no tensor: ", "as it was"
GOES_BACK = "loss_of(output).backward()"  # the line below that does so


class Several(list[Any]):
    """What came of a trial that uses an answer more than once. A list that an answer gives by itself is no tensor."""


@dataclass(frozen=True)
class StepSeen:
    """``outputs`` are what came back, or one text that begins with ``NOT_A_TENSOR``."""

    outputs: list[Tensor] | str
    gradients: dict[str, Tensor | str]
    forward: tuple[Call, ...]
    backward: tuple[Call, ...]
    unwaited: str  # the first collective or message that nobody waited for; empty: none
    handed: str  # what has become of what the answer was given
    left: str  # what it left behind on the rank; empty: nothing
    ready_made: tuple[str, ...]  # functions that it called and is to write
    traces: tuple[weakref.ref[Tensor], ...]  # of its leaves, of what it was given, and of what came back
    kept_alive: int = 0  # of those, how many outlive each step


def take_step(
    me: Rank,
    run: Callable[[], Any],
    leaves: Mapping[str, Tensor],
    handed: Mapping[str, Tensor],
    loss_of: Callable[[Tensor], Tensor],
    not_to_call: Sequence[str] = (),
) -> StepSeen:
    """Run the answer, go back from what it gave, one output after the other, and look around.

    ``leaves`` are asked for their gradients, ``handed`` is what the answer gets and has to leave as it was.
    """
    from course_lib.cluster.base.open_groups import groups_here
    from course_lib.cluster.leaks.compare import never_waited_here
    from course_lib.meter.communication.recorder import Recorder

    num_groups = len(groups_here())
    before, untouched = Kept(**handed), Kept(ignore=("gradients",), **handed)
    with watch(not_to_call) as called, Recorder(me.rank) as recorder:  # one for both: to open it takes 10 ms
        outputs = _tensors(run())
        num_forward, unwaited = len(recorder.calls), never_waited_here()
        changed, switched = before.changes(), _switched_off()
        is_written = isinstance(outputs, str) or _go_back(outputs, loss_of)
    groups = "a process group that it made is still there" if len(groups_here()) != num_groups else ""
    return StepSeen(
        outputs if isinstance(outputs, str) else [one.detach().cpu() for one in outputs],
        {name: _gradient(one) if is_written else UNWRITTEN for name, one in leaves.items()},
        recorder.calls[:num_forward],
        recorder.calls[num_forward:],
        next(iter(unwaited or never_waited_here()), ""),
        changed or untouched.changes() or AS_IT_WAS,
        switched or groups,
        tuple(sorted(called)),
        tuple(
            map(
                weakref.ref,
                (*leaves.values(), *handed.values(), *([] if isinstance(outputs, str) else outputs)),
            )
        ),
    )


def seen_again(step: Callable[[int], StepSeen], world_size: int) -> StepSeen:
    """The last of two steps with different numbers: what one step leaves behind, the next one meets.

    Nothing that a rank keeps depends on how many there are, so two ranks look for that; of more, each steps once.
    """
    if world_size != _LOOKS_FOR_MORE:
        return step(1)
    first = step(0)
    last = step(1)
    return replace(last, kept_alive=min(_num_alive(first.traces), _num_alive(last.traces)))


def _tensors(given: Any) -> list[Tensor] | str:
    several = given if isinstance(given, Several) else [given]
    strange = [one for one in several if not isinstance(one, Tensor)]
    return several if not strange else NOT_A_TENSOR + _in_words(strange[0])


def _in_words(given: Any) -> str:
    """What came in place of a tensor."""
    if isinstance(given, list | tuple) and given and all(isinstance(one, Tensor) for one in given):
        return f"a {type(given).__name__} of {len(given)} tensor{'s' * (len(given) > 1)}"
    return short(given)


def _switched_off() -> str:
    """Gradients are turned on again, or the next step would be the one to fail."""
    if torch.is_grad_enabled():
        return ""
    torch.set_grad_enabled(True)
    return "gradients were left switched off"


def _go_back(outputs: Sequence[Tensor], loss_of: Callable[[Tensor], Tensor]) -> bool:
    """Whether there was a way back: False where it ended at a stub."""
    for output in outputs:
        if output.requires_grad:
            try:
                loss_of(output).backward()
            except NotImplementedError as error:
                if not says_your_turn(error):
                    raise
                return False
    return True


def _gradient(leaf: Tensor) -> Tensor | str:
    return NO_GRADIENT if leaf.grad is None else leaf.grad.detach().cpu().clone()


def _num_alive(traces: Sequence[weakref.ref[Tensor]]) -> int:
    """How many are still there. Something holds the way back of a step as long as one of its leaves is.

    A back end's thread may hold on to the tensor of a collective for a moment after its end, so they get a moment.
    """
    deadline = time.monotonic() + _SETTLE_S
    while True:
        gc.collect()
        count = sum(trace() is not None for trace in traces)
        if not count or time.monotonic() > deadline:
            return count
        time.sleep(0.01)
