"""What a rank runs when an answer is tried under the meter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from course_lib.cluster import operators, taps
from course_lib.learn.kept import Kept
from course_lib.meter import Call

__all__ = ["Tried", "metered_trial"]


@dataclass(frozen=True)
class Tried:
    """What an answer gave on one rank, what it sent, and what became of the tensor that it was handed."""

    value: Any
    calls: tuple[Call, ...]
    handed: Any = None
    is_handed: bool = False  # whether ``value`` lies in the memory of ``handed``
    changed: str = ""  # how ``handed`` has changed, in words


def metered_trial(
    call: Callable[..., Any] | None, handed: str, answer: Callable[..., Any], me: Any, *args: Any
) -> Any:
    """Run the answer, by ``call`` where that is not None, with a recorder on."""
    from course_lib.meter.recorder import Recorder

    kept = Kept(**({"the tensor that was handed in": args[0]} if handed == "kept" else {}))
    with Recorder(me.rank) as recorder, _ranks_that_are_there(me.rank):
        value = answer(me, *args) if call is None else call(answer, me, *args)
    if not handed or value is ...:
        return Tried(value, recorder.calls)
    changed = kept.changes().replace("`", "")
    return Tried(value, recorder.calls, args[0], _is_of(value, args[0]), changed)


def _is_of(value: Any, tensor: torch.Tensor) -> bool:
    if not isinstance(value, torch.Tensor):
        return False
    return value.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr()


@contextmanager
def _ranks_that_are_there(rank: int) -> Iterator[None]:
    """A message to or from a rank that does not exist is an error at once, with its number; gloo waits for ever."""

    def hear(name: str, arguments: dict[str, Any], proceed: Callable[[], Any]) -> Any:
        peer = arguments.get("dst", arguments.get("src"))
        if name in ("send", "recv_") and peer is not None:
            asked = operators.read(name, arguments)
            if asked is not None and not 0 <= peer < len(asked.ranks):
                verb = "sends to" if name == "send" else "receives from"
                last = len(asked.ranks) - 1
                raise ValueError(
                    f"rank {rank} {verb} rank {peer}, which does not exist: there are ranks 0 to {last}"
                )
        return proceed()

    taps.open_tap(hear)
    try:
        yield
    finally:
        taps.close(hear)
