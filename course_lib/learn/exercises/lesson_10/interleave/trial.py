"""10.interleave: layers that note which of their steps was called when, and an answer tried on them.

Everything is in one process and on no clock: a step counts 1, an exchange counts 1 (or what a ``Log`` is told), and
one link carries one exchange after the other. The numbers are real, and gradients go through them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from course_lib.learn.judging.compare import difference, short
from course_lib.learn.judging.mutation_guard import Kept
from course_lib.learn.judging.report import NOTHING, Report, fact
from course_lib.parallel.experts import PendingExchange

__all__ = ["Log", "OrderReport", "logged_layers", "right", "trial"]

_STEPS = "a layer of this exercise has dense, dispatch, experts and combine, and nothing else"


class Log:
    """What was called, as ("compute", step), ("start", exchange) and ("wait", exchange), and how long it takes."""

    def __init__(self, exchange: float = 1.0) -> None:
        self.exchange = exchange
        self.calls: list[tuple[str, Any]] = []
        self.pending: set[str] = set()
        self.now = self.link_free = self.waited = 0.0

    def compute(self, name: str) -> None:
        self.calls.append(("compute", name))
        self.now += 1.0

    def start(self, name: str, finish: Callable[[], Any]) -> PendingExchange[Any]:
        second = ("start", f"the first {name}") in self.calls
        name = f"the {'second' if second else 'first'} {name}"
        self.calls.append(("start", name))
        self.pending.add(name)
        arrives = self.link_free = max(self.link_free, self.now) + self.exchange
        return PendingExchange(lambda: self._wait(name, arrives, finish))

    def _wait(self, name: str, arrives: float, finish: Callable[[], Any]) -> Any:
        self.calls.append(("wait", name))
        self.pending.discard(name)
        self.waited += max(0.0, arrives - self.now)
        self.now = max(self.now, arrives)
        return finish()


@dataclass(frozen=True)
class _Rows:
    """On the rank of their experts."""

    rows: Tensor
    tokens: Tensor
    layer: int
    is_made: bool


class _Layer:
    """The four steps of a ``SteppedLayer``, with arithmetic that tells layers and steps apart."""

    def __init__(self, number: int, log: Log) -> None:
        self.number, self.log = number, log

    def dense(self, x: Any) -> Tensor:
        self.log.compute(f"dense of layer {self.number}")
        return torch.tanh(_tensor(x) * (1.5 + self.number)) + 0.25

    def dispatch(self, x: Any) -> PendingExchange[_Rows]:
        x = _tensor(x)
        return self.log.start(
            f"exchange to the experts of layer {self.number}", lambda: _Rows(x, x, self.number, False)
        )

    def experts(self, arrived: Any) -> _Rows:
        given = _rows(arrived, self.number, False)
        self.log.compute(f"experts of layer {self.number}")
        return _Rows(given.rows**2 - 0.5 * given.rows + self.number, given.tokens, self.number, True)

    def combine(self, made: Any) -> PendingExchange[Tensor]:
        given = _rows(made, self.number, True)
        return self.log.start(f"exchange back in layer {self.number}", lambda: given.tokens + given.rows)

    def __call__(self, *_: Any, **__: Any) -> Tensor:
        raise TypeError(f"{_STEPS}: it cannot be called as a whole")

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{_STEPS}: no `{name}`")


def logged_layers(num_layers: int, log: Log) -> list[Any]:
    """Layers that an answer, or an order of the course's own, can be called with; they note what is called."""
    return [_Layer(number, log) for number in range(num_layers)]


def _tensor(x: Any) -> Tensor:
    if isinstance(x, Tensor):
        return x
    raise TypeError(f"a step wants tokens, a tensor; it was given {_told(x)}")


def _rows(given: Any, layer: int, is_made: bool) -> _Rows:
    if not isinstance(given, _Rows):
        raise TypeError(f"`{'combine' if is_made else 'experts'}` was given {_told(given)}")
    if given.layer != layer:
        raise ValueError(f"layer {layer} was given rows of layer {given.layer}")
    if given.is_made != is_made:
        say = "rows that no expert has computed" if is_made else "what experts have computed already"
        raise ValueError(f"`{'combine' if is_made else 'experts'}` was given {say}")
    return given


def _told(x: Any) -> str:
    return (
        "an exchange in flight: call its wait(), and give what that returns"
        if isinstance(x, PendingExchange)
        else short(x)
    )


def _differs(want: Any, have: Any) -> str:
    """Gradients of float32 add up in an order that is free."""
    in_float32 = isinstance(want, list) and any(isinstance(one, Tensor) and one.dtype == torch.float32 for one in want)
    relative, absolute = (1e-5, 1e-6) if in_float32 else (1e-9, 1e-12)
    return difference(want, have, relative=relative, absolute=absolute)


def _tell_gradients(want: Any, have: Any, how: str) -> str:
    return f"the outputs are right, and not the gradients of a and b: {have if isinstance(have, str) else how}"


@dataclass(frozen=True, kw_only=True)
class OrderReport(Report):
    """What an answer gave, and how it went about it. ``calls`` is for recognisers."""

    asked_for = "two outputs, of a and of b"
    out: Any = fact("the outputs: {difference}", by=_differs)
    gradients: Any = fact(_tell_gradients, by=_differs)
    steps: int = fact("the outputs are right, and {got} steps were computed, where {expected} are needed")
    pending: str = fact("the outputs are right, and nobody waited for {got}", right=NOTHING)
    own_calls: str = fact(
        "the outputs are right, and your function itself called `dist.{got}`. The layers send all that is to be sent",
        right=NOTHING,
    )
    kept: str = fact("the outputs are right, and your code changed what was to stay: {got}", right=NOTHING)
    waited: float = fact(
        "the outputs are right. If each step and each exchange takes a time of 1, the rank waits for a time of {got}, "
        "where {expected} would do",
        by=lambda most, have: "it waits longer" if have > most + 1e-9 else "",
        right=1.0,
    )
    calls: tuple[tuple[str, Any], ...] = ()


def _tokens(rows_a: int, rows_b: int, seed: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(100 * seed + 10 * rows_a + rows_b)
    a, b = (torch.randn(rows, 3, dtype=torch.float64, generator=generator).to(dtype) for rows in (rows_a, rows_b))
    return a.requires_grad_(), b.requires_grad_()


def trial(
    answer: Callable[..., Any],
    num_layers: int,
    rows_a: int,
    rows_b: int,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
) -> Any:
    from course_lib.meter.communication.recorder import Recorder

    log, (a, b) = Log(), _tokens(rows_a, rows_b, seed, dtype)
    kept = Kept(a=a, b=b)
    with Recorder(0) as recorder:
        out = answer(logged_layers(num_layers, log), a, b)
    if out is ... or out is None:
        return out
    if not isinstance(out, tuple | list) or len(out) != 2:
        return short(out)
    changed, waited, calls = kept.changes() or NOTHING, log.waited, tuple(log.calls)
    shown = [one.detach().clone() if isinstance(one, Tensor) else _told(one) for one in out]
    return OrderReport(
        out=shown,
        gradients=_gradients(out, a, b),
        steps=sum(kind == "compute" for kind, _ in calls),
        pending=min(log.pending) if log.pending else NOTHING,
        own_calls=recorder.calls[0].operation if recorder.calls else NOTHING,
        kept=changed,
        waited=waited,
        calls=calls,
    )


def _gradients(out: Any, a: Tensor, b: Tensor) -> Any:
    """Of the sum of one output and twice the other's."""
    if not all(isinstance(one, Tensor) for one in out):
        return None
    loss = out[0].sum() + 2 * out[1].sum()
    if not loss.requires_grad:
        return "the outputs have no history, so nothing leads back to a and b"
    grads = torch.autograd.grad(loss, (a, b), allow_unused=True)
    return [torch.zeros_like(x) if grad is None else grad for x, grad in zip((a, b), grads, strict=True)]


def right(num_layers: int, rows_a: int, rows_b: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> OrderReport:
    """By the formula, one micro-batch after the other."""
    a, b = _tokens(rows_a, rows_b, seed, dtype)
    out = []
    for x in (a, b):
        for number in range(num_layers):
            x = torch.tanh(x * (1.5 + number)) + 0.25
            x = x + (x**2 - 0.5 * x + number)  # as the layers add, to the last bit
        out.append(x)
    return OrderReport(out=[one.detach() for one in out], gradients=_gradients(out, a, b), steps=4 * num_layers)
