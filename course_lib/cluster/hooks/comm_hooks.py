"""Where all communication of this process is heard: every call that starts some, and every ``Work.wait``.

Whatever starts communication in PyTorch (a direct call, DDP's reducer, ``fully_shard``, DTensor, batched messages, a
backward pass) ends in an operator of the ``c10d`` library, called through PyTorch's dispatcher. While somebody has
subscribed, a kernel of ours stands at the dispatch key that every call passes (``BackendSelect``), lets the subscribers
take note, and hands on to the kernel of the device. Ordinary tensor operations are not touched and cost nothing more.
Waits in Python are heard at ``Work.wait``, which is replaced here and nowhere else.

Subscribers: the tracker of pending operations (``op_tracker.py``), emulated links and slowed ranks
(``cluster/links``), the communication meter (``meter/communication/recorder.py``).

Why not a ``TorchDispatchMode``: it runs Python at every operator of the program (7 % of a DDP step of a model of a
million parameters here), and sees functional collectives at another level than direct ones.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Protocol

import torch

__all__ = [
    "CallSubscriber",
    "WaitSubscriber",
    "subscribe",
    "subscribe_waits",
    "unsubscribe",
    "unsubscribe_waits",
    "wait_unhooked",
]

# Called as subscriber(operator name, its arguments by name, proceed), and returns what proceed() returns.
CallSubscriber = Callable[[str, dict[str, Any], Callable[[], Any]], Any]


class WaitSubscriber(Protocol):
    """Hears both ends of a ``Work.wait``, in the thread that waits."""

    def wait_started(self, work: Any) -> Any:
        """The wait begins. What this returns comes back at its end."""

    def wait_ended(self, work: Any, started: Any, error: BaseException | None) -> None:
        """The wait is over, and has raised ``error`` or nothing. What this raises, the waiter sees."""


_lock = threading.Lock()
_subscribers: list[CallSubscriber] = []  # the last one hears a call first
_num_first = 0  # at the end of the list: those that stay in front of whoever comes later
_library: Any = None
_wait_subscribers: tuple[WaitSubscriber, ...] = ()  # oldest first
_plain_wait: Callable[..., Any] | None = None  # while ours stands in its place


# -- calls -----------------------------------------------------------------------------------------------------------


def subscribe(subscriber: CallSubscriber, *, first: bool = False) -> None:
    """From now on ``subscriber`` hears every call, in the thread that makes it.

    The newest hears it first, and before it those subscribed as ``first``.
    """
    global _library, _num_first
    with _lock:
        _subscribers.insert(len(_subscribers) if first else len(_subscribers) - _num_first, subscriber)
        _num_first += first
        if _library is None:
            _library = torch.library.Library("c10d", "IMPL")
            for name in _operator_names():
                _library.impl(name, _kernel(name), "BackendSelect", with_keyset=True)


def unsubscribe(subscriber: CallSubscriber) -> None:
    """Stop hearing; with the last subscriber the kernels are taken out altogether."""
    global _library, _num_first
    with _lock:
        _num_first -= _subscribers.index(subscriber) >= len(_subscribers) - _num_first
        _subscribers.remove(subscriber)
        if not _subscribers and _library is not None:
            _library._destroy()
            _library = None


@lru_cache(maxsize=1)  # it goes through every operator of PyTorch, for milliseconds
def _operator_names() -> tuple[str, ...]:
    names = (name.removeprefix("c10d::") for name in torch._C._dispatch_get_all_op_names() if name.startswith("c10d::"))
    return tuple(sorted(name for name in names if name != "check_for_nan" and "." not in name))


@functools.cache  # what an operator's arguments are called, PyTorch reads anew each time
def _kernel(name: str) -> Callable[..., Any]:
    operator = getattr(torch.ops.c10d, name).default
    argument_names = [argument.name for argument in operator._schema.arguments]

    def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        device_key = torch._C.DispatchKey.CUDA if keyset.has(torch._C.DispatchKey.CUDA) else torch._C.DispatchKey.CPU
        named = {**dict(zip(argument_names, args, strict=False)), **kwargs}

        def proceed() -> Any:
            return operator.redispatch(torch._C.DispatchKeySet(device_key), *args, **kwargs)

        for subscriber in list(_subscribers):
            proceed = _nested(subscriber, name, named, proceed)
        return proceed()

    return kernel


def _nested(
    subscriber: CallSubscriber, name: str, named: dict[str, Any], inner: Callable[[], Any]
) -> Callable[[], Any]:
    return lambda: subscriber(name, named, inner)


# -- waits -----------------------------------------------------------------------------------------------------------


def subscribe_waits(subscriber: WaitSubscriber) -> None:
    """From now on ``subscriber`` hears every ``Work.wait`` in Python. The oldest hears its end first."""
    global _wait_subscribers, _plain_wait
    from torch._C._distributed_c10d import Work

    with _lock:
        _wait_subscribers = (*_wait_subscribers, subscriber)
        if _plain_wait is None:
            _plain_wait = Work.wait
            Work.wait = _hooked(Work.wait)  # type: ignore[method-assign]


def unsubscribe_waits(subscriber: WaitSubscriber) -> None:
    """Stop hearing; with the last subscriber ``Work.wait`` is PyTorch's own again."""
    global _wait_subscribers, _plain_wait
    from torch._C._distributed_c10d import Work

    with _lock:
        _wait_subscribers = tuple(one for one in _wait_subscribers if one is not subscriber)
        if not _wait_subscribers and _plain_wait is not None:
            if getattr(Work.wait, "__wrapped__", None) is _plain_wait:  # and nobody else has come since
                Work.wait = _plain_wait  # type: ignore[method-assign]
            _plain_wait = None


def wait_unhooked(work: Any) -> Any:
    """PyTorch's own wait, for those who wait in place of another."""
    return (_plain_wait or type(work).wait)(work)


def _hooked(plain: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
        return _wait(_wait_subscribers, plain, work, args, kwargs)

    return wait


def _wait(
    subscribers: tuple[WaitSubscriber, ...],
    plain: Callable[..., Any],
    work: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """The newest is outermost. Each has a ``finally`` of its own, for an interrupt may come at any line."""
    if not subscribers:
        return plain(work, *args, **kwargs)
    older, newest = subscribers[:-1], subscribers[-1]
    error: BaseException | None = None
    started = newest.wait_started(work)
    try:
        return _wait(older, plain, work, args, kwargs)
    except BaseException as raised:
        error = raised
        raise
    finally:
        newest.wait_ended(work, started, error)
