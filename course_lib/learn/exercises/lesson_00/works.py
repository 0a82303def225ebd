"""On a rank: what was started and never waited for."""

from __future__ import annotations

import sys
from types import FrameType, FunctionType, MethodType
from typing import Any

from torch._C._distributed_c10d import Work

from course_lib.cluster import taps

__all__ = ["Works"]

_NAMES = {
    "allreduce_": "all_reduce",
    "allgather_": "all_gather",
    "broadcast_": "broadcast",
    "reduce_": "reduce",
    "gather_": "gather",
    "scatter_": "scatter",
    "send": "isend",
    "recv_": "irecv",
    "recv_any_source_": "irecv",
}
_WAITS = ("wait", "get_future", "is_completed", "synchronize", "block_current_stream")


class Works:
    """While entered, hears every collective and message that starts and every look at what became of it.

    A ``Work`` counts as waited for once anybody has waited, asked for its future or asked whether it is done.
    Functional collectives wait by themselves when their tensor is read, so they are left out.
    """

    def __init__(self) -> None:
        self._started: list[tuple[str, Any]] = []
        self._waited: set[int] = set()
        self._plain: dict[str, Any] = {}
        self._inside = False  # a start that is on its way: who looks at its work now is a meter
        self._hear = _nobodys(self._heard)

    @property
    def never_waited_for(self) -> list[str]:
        """The names of what was started and left to itself, in the order of their starts."""
        return [name for name, work in self._started if id(work) not in self._waited]

    @property
    def num_started(self) -> int:
        return len(self._started)

    def __enter__(self) -> Works:
        taps.open_tap(self._hear)
        for name in _WAITS:
            plain = getattr(Work, name, None)
            if plain is not None:
                self._plain[name] = plain
                setattr(Work, name, self._noted(plain))
        return self

    def __exit__(self, *_: object) -> None:
        for name, plain in self._plain.items():
            setattr(Work, name, plain)
        taps.close(self._hear)

    def _noted(self, plain: Any) -> Any:
        def method(work: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._inside:
                self._waited.add(id(work))
            return plain(work, *args, **kwargs)

        return _nobodys(method)

    def _heard(self, name: str, arguments: dict[str, Any], proceed: Any) -> Any:
        self._inside = True
        try:
            result = proceed()
        finally:
            self._inside = False
        parts = result if isinstance(result, tuple | list) else [result]
        for part in parts:
            if type(part).__name__ == "ScriptObject" and not _is_functional(sys._getframe()):
                self._started.append((_NAMES.get(name, name.rstrip("_")), Work.unbox(part)))
        return result


def _nobodys(function: Any) -> Any:
    """The function with a line that belongs to nobody, so that no report takes it for the learner's."""
    plain = getattr(function, "__func__", function)
    code = plain.__code__.replace(co_filename="<the check>")
    unseen = FunctionType(code, plain.__globals__, plain.__name__, plain.__defaults__, plain.__closure__)
    return MethodType(unseen, function.__self__) if plain is not function else unseen


def _is_functional(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.endswith("_functional_collectives.py"):
            return True
        frame = frame.f_back
    return False
