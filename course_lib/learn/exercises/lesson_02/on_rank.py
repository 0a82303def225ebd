"""What a rank runs when an answer is tried under the meter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from course_lib.learn.judging.kept_references import Traces
from course_lib.learn.judging.mutation_guard import Kept
from course_lib.learn.sandbox.state_guard import right_but
from course_lib.meter import Call

__all__ = ["RankTried", "metered_trial", "third_call"]

_SHARED = "what came back lies in the memory of what an earlier call gave: who keeps that one finds it overwritten"


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
    stayed: str = ""  # what stays of a call when it is over, in words


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


def third_call(call: Callable[..., Any] | None, handed: str, answer: Callable[..., Any], me: Any, *args: Any) -> Any:
    """As ``metered_trial``, after two calls with tensors of the same shapes; the second had the same numbers."""
    use = answer if call is None else partial(call, answer)
    other, same = (tuple(arg.clone() + more for arg in args) for more in (1, 0))
    earlier, found = [], ""
    for given in (other, same):
        traces = Traces(given)
        earlier.append(_memory(use(me, *given)))
        found = found or traces.found(None)
    tried = metered_trial(call, handed, answer, me, *args)
    if not isinstance(tried, RankTried):
        return tried
    shares = _memory(tried.value) is not None and _address(_memory(tried.value)) in map(_address, earlier)
    return replace(tried, stayed=right_but(found) if found else _SHARED * shares)


def _memory(value: Any) -> Any:
    """The memory of a tensor, which stays as long as somebody has this, whoever holds the tensor itself."""
    return value.untyped_storage() if isinstance(value, torch.Tensor) else None


def _address(memory: Any) -> int:
    return -1 if memory is None else memory.data_ptr()


def _is_of(value: Any, tensor: Any) -> bool:
    if not isinstance(value, torch.Tensor) or not isinstance(tensor, torch.Tensor):
        return False
    return value.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr()
