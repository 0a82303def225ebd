"""What a rank runs when an answer is tried under the meter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from course_lib.learn.judging.mutation_guard import Kept
from course_lib.meter import Call

__all__ = ["RankTried", "metered_trial"]


@dataclass(frozen=True)
class RankTried:
    """What an answer gave on one rank, what it sent, and what became of the tensor that it was handed.

    ``handed`` is the memory of that tensor, also where the answer has given the tensor other memory.
    """

    value: Any
    calls: tuple[Call, ...]
    handed: Any = None
    is_handed: bool = False  # whether ``value`` lies in the memory of ``handed``
    changed: str = ""  # how ``handed`` has changed, in words
    is_moved: bool = False  # whether ``handed`` lies in other memory than before


def metered_trial(call: Callable[..., Any] | None, handed: str, answer: Callable[..., Any], me: Any, *args: Any) -> Any:
    """Run the answer, by ``call`` where that is not None, with a recorder on."""
    from course_lib.meter.communication.recorder import Recorder

    kept = Kept(**({"the tensor that was handed in": args[0]} if handed == "kept" else {}))
    memory = args[0].detach() if handed else None  # as somebody sees it who has a view
    with Recorder(me.rank) as recorder:
        value = answer(me, *args) if call is None else call(answer, me, *args)
    if not handed or value is ...:
        return RankTried(value, recorder.calls)
    changed = kept.changes().replace("`", "")
    return RankTried(
        value, recorder.calls, memory, _is_of(value, memory), changed, is_moved=not _is_of(args[0], memory)
    )


def _is_of(value: Any, tensor: Any) -> bool:
    if not isinstance(value, torch.Tensor) or not isinstance(tensor, torch.Tensor):
        return False
    return value.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr()
