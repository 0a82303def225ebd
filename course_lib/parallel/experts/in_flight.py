"""Exchanges of rows that are started now and waited for later, forward and backward.

Autograd goes through a graph from its end to its beginning. So the two halves change places: where forward *waits* for
rows, backward *starts* the exchange of their gradients, and where forward started, backward waits. Whatever was
computed between start and wait in forward lies between start and wait in backward too.

PyTorch has ``torch.distributed._functional_collectives.all_to_all_single_autograd``, whose backward starts and waits in
one place: it hides nothing there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import torch.distributed as dist
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from course_lib.parallel.collectives.members import Members, in_one_piece
from course_lib.parallel.experts.exchange import check_sizes

if TYPE_CHECKING:
    from course_lib.meter.clocks.spans import Span
    from course_lib.meter.clocks.timeline import Timeline

__all__ = ["PendingExchange", "num_behind_computing", "start_exchange"]

T = TypeVar("T")


class PendingExchange(Generic[T]):
    """What has been started: ``wait()`` ends it and gives its result, the same one at each further call."""

    def __init__(self, finish: Callable[[], T]) -> None:
        self._finish: Callable[[], T] | None = finish
        self._result: list[T] = []

    def wait(self) -> T:
        """The result; returns when it is there."""
        if self._finish is not None:
            finish, self._finish = self._finish, None
            self._result.append(finish())
        return self._result[0]

    def __repr__(self) -> str:
        return f"<an exchange {'in flight' if self._finish is not None else 'that is over'}>"


def start_exchange(
    members: Members,
    x: Tensor,
    send_rows: Sequence[int],
    recv_rows: Sequence[int],
    *,
    timeline: Timeline | None = None,
) -> PendingExchange[Tensor]:
    """``exchange_rows``, started: (sum of send_rows, ...) -> in flight, (sum of recv_rows, ...).

    Every rank starts its exchanges in one order, and waits for each before its backward. Backward starts them in the
    opposite order of the waits. ``timeline`` gets two spans for each, in forward and in backward: a collective, from
    the start to the end of the wait, and the wait. A single rank sends nothing. ``ValueError`` as ``exchange_rows``.
    """
    check_sizes(members, x, send_rows, recv_rows)
    if members.count == 1:
        return PendingExchange(lambda: x)
    exchange = _Exchange(members, list(send_rows), list(recv_rows), timeline)
    ticket = _Start.apply(exchange, x)
    return PendingExchange(lambda: _Wait.apply(exchange, ticket))


def num_behind_computing(spans: Iterable[Span]) -> int:
    """How many exchanges have a whole span of computing between their start and their wait, by the order of calls."""
    spans = tuple(spans)
    waits_s = {span.end_s: span.start_s for span in spans if span.kind == "wait"}
    computing = [span for span in spans if span.kind == "compute"]
    return sum(
        any(span.start_s <= one.start_s and one.end_s <= waits_s[span.end_s] for one in computing)
        for span in spans
        if span.kind == "collective"
    )


class _Exchange:
    """One exchange and, in backward, that of its gradient: what is in flight, and what must stay until it is over."""

    def __init__(self, members: Members, send_rows: list[int], recv_rows: list[int], timeline: Timeline | None) -> None:
        self.members, self.send_rows, self.recv_rows, self._timeline = members, send_rows, recv_rows, timeline
        self._began_s = 0.0
        self._held: tuple[Any, Tensor, Tensor] | None = None  # the work, what is sent, where rows arrive

    def start(self, x: Tensor, send_rows: list[int], recv_rows: list[int]) -> None:
        self._began_s = time.perf_counter()
        received, sent = x.new_empty(sum(recv_rows), *x.shape[1:]), in_one_piece(x)
        work = dist.all_to_all_single(received, sent, recv_rows, send_rows, group=self.members.group, async_op=True)
        self._held = work, sent, received

    def end(self) -> Tensor:
        """The rows that have come."""
        assert self._held is not None
        work, _, received = self._held
        waits_s = time.perf_counter()
        work.wait()
        if self._timeline is not None:
            from course_lib.meter.clocks.spans import Span  # which a training without a timeline does without

            rank, ended_s = self._timeline.rank, time.perf_counter()
            self._timeline.add(Span(rank, "all_to_all", "collective", self._began_s, ended_s))
            self._timeline.add(Span(rank, "wait", "wait", waits_s, ended_s))
        self._held = None
        return received


class _Start(Function):
    """x -> a number without meaning, that ties ``_Wait`` to it in autograd's graph."""

    @staticmethod
    def forward(ctx: Any, exchange: _Exchange, x: Tensor) -> Tensor:
        ctx.exchange = exchange
        exchange.start(x, exchange.send_rows, exchange.recv_rows)
        return x.new_zeros(())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return None, ctx.exchange.end()


class _Wait(Function):
    @staticmethod
    def forward(ctx: Any, exchange: _Exchange, ticket: Tensor) -> Tensor:
        ctx.exchange = exchange
        return exchange.end()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Any:
        exchange = ctx.exchange
        exchange.start(grads[0], exchange.recv_rows, exchange.send_rows)
        return None, grads[0].new_zeros(())
