"""What is done to the tensor of a message between its start and the wait for it: whether that shows is chance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from course_lib.cluster.hooks import comm_hooks
from course_lib.cluster.hooks.operators import tensors_in

__all__ = ["READ", "WRITTEN", "InFlight"]

READ = "used what a receive was to bring, before it had waited for it"
WRITTEN = "changed what was being sent, before it had waited for that"
_MESSAGES = {"send": WRITTEN, "recv_": READ, "recv_any_source_": READ}


@dataclass(frozen=True)
class _Message:
    """``said`` is what may not happen to the bytes from ``begin`` to ``end`` until somebody has waited for ``work``."""

    said: str
    begin: int
    end: int
    work: Any


class InFlight(TorchDispatchMode):
    """While it is entered, sees what is done to tensors of messages in flight; ``seen`` tells of the first.

    Views are no operations on numbers, and what a back end does inside is not looked at.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seen = ""
        self._open: list[_Message] = []

    def __enter__(self) -> InFlight:
        comm_hooks.subscribe(self._hear)
        comm_hooks.subscribe_waits(self)
        super().__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        super().__exit__(*exception)
        comm_hooks.unsubscribe_waits(self)
        comm_hooks.unsubscribe(self._hear)

    def _hear(self, name: str, arguments: dict[str, Any], proceed: Callable[[], Any]) -> Any:
        from torch._C._distributed_c10d import Work

        result = proceed()
        if name in _MESSAGES and isinstance(result, torch.ScriptObject):
            work = Work.unbox(result)
            for tensor in tensors_in(arguments.get("tensors")):
                begin = tensor.data_ptr()
                self._open.append(_Message(_MESSAGES[name], begin, begin + tensor.nbytes, work))
        return result

    def wait_started(self, work: Any) -> None:
        """Nothing; ``comm_hooks`` asks for it."""

    def wait_ended(self, work: Any, started: None, error: BaseException | None) -> None:
        self._open = [message for message in self._open if message.work is not work]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self._open and not self.seen and func.namespace == "aten":
            touched = self._touched(func, args, kwargs or {})
            self.seen = next((one.said for one, writes in touched if writes or one.said == READ), "")
        return func(*args, **(kwargs or {}))

    def _touched(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Iterator[tuple[_Message, bool]]:
        if func.is_view or func.name() == "aten::detach":
            return
        for place, argument in enumerate(func._schema.arguments):
            given = args[place] if place < len(args) else kwargs.get(argument.name)
            writes = argument.alias_info is not None and argument.alias_info.is_write
            for tensor in tree_leaves(given):
                if isinstance(tensor, Tensor):
                    begin, end = tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes
                    yield from ((one, writes) for one in self._open if begin < one.end and one.begin < end)
