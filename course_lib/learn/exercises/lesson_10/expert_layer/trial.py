"""10.experts: a few calls of the learner's layer on a rank, and what is seen of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from course_lib.cluster.base.rank import Rank
from course_lib.learn.exercises.lesson_10.call_reports import CALLABLE
from course_lib.learn.exercises.lesson_10.expert_layer.cases import (
    PUSH,
    ROUNDS,
    SITUATIONS,
    WatchedExpert,
    given_modules,
    tokens_of,
)
from course_lib.learn.exercises.lesson_10.expert_layer.reports import ExpertsBalanceReport
from course_lib.learn.exercises.lesson_10.expert_layer.right import COSTS, SEEN, held_bytes
from course_lib.learn.exercises.lesson_10.ring.watch import RingWatch
from course_lib.learn.exercises.lesson_10.watched_calls import group_of, sent_in, settled
from course_lib.learn.judging.compare import short
from course_lib.learn.judging.mutation_guard import Kept
from course_lib.learn.judging.report import NOT_DEMANDED, NOTHING, first_unwaited

__all__ = ["trial"]

_SMALL_BYTES = 256
_COSTS_TOO = 2


def trial(answer: Callable[..., Any], me: Rank, label: str, looks: int = _COSTS_TOO) -> ExpertsBalanceReport:
    """What the calls of this situation show. It is judged by as much as the step of the build demands.

    ``looks``: 0 for values alone, 1 for what is computed and sent as well, 2 for memory, too.
    """
    one = SITUATIONS[label]
    members = one.members(me.world_size)
    with group_of(members, me) as group:
        if me.rank not in members:
            return _report()
        return _Trial(answer, me, label, members, group).report(min(looks, 2 * one.is_counted))


def _report(**facts: Any) -> ExpertsBalanceReport:
    start: dict[str, Any] = dict.fromkeys((*SEEN, *COSTS), NOT_DEMANDED)
    start |= {"made": CALLABLE, "kept": NOTHING, "unwaited": NOTHING}
    return ExpertsBalanceReport(**(start | facts))


class _Trial:
    def __init__(self, answer: Callable[..., Any], me: Rank, label: str, members: Sequence[int], group: Any) -> None:
        self.answer, self.me, self.label, self.group = answer, me, label, group
        self.situation, self.count, self.place = SITUATIONS[label], len(members), members.index(me.rank)
        self.kept, self.seed = "", torch.initial_seed()
        self.outputs: list[Any] = []
        self.balances: list[Any] = []
        self.gradients: list[dict[str, Any]] = []
        self.given = [self._modules(number) for number in range(self.situation.num_layers)]

    def report(self, looks: int) -> ExpertsBalanceReport:
        layers = [self._made(*given) for given in self.given]
        if strange := [layer for layer in layers if not callable(layer)]:
            return _report(made=short(strange[0]))
        self._turn(layers, 0)
        facts: dict[str, Any] = {}
        if looks:
            facts |= self._recorded(layers)
        else:
            self._turn(layers, 1)
        begun = first_unwaited()
        if looks > 1 and begun == NOTHING:
            facts |= self._weighed()
        changed = self.kept or ("the seed of random numbers" * (torch.initial_seed() != self.seed)) or NOTHING
        balance = self._balance_of_all() if self.situation.balances else NOT_DEMANDED
        return _report(
            outputs=self.outputs,
            gradients=self.gradients if self.situation.goes_back else NOT_DEMANDED,
            balance=balance,
            kept=changed,
            unwaited=begun,
            **facts,
        )

    def _modules(self, number: int) -> tuple[nn.Linear, list[WatchedExpert]]:
        router, experts = given_modules(self.label, self.count, self.place, number)
        return router.to(self.me.device), [expert.to(self.me.device) for expert in experts]

    def _made(self, router: nn.Linear, experts: list[WatchedExpert]) -> Any:
        one = self.situation
        given = (self.me, router, experts, one.chosen(self.count), one.capacity_factor)
        return self.answer(*given) if self.group is None else self.answer(*given, self.group)

    def _tokens(self, turn: int, number: int) -> tuple[Tensor, Tensor]:
        """The tokens of this rank, a leaf, and the gradient of its output."""
        x, grad = (
            part.to(self.me.device, copy=True) for part in tokens_of(self.label, self.count, number, turn)[self.place]
        )
        return x.requires_grad_(self.situation.needs_x and self.situation.goes_back), grad

    def _forward(self, layer: Any, x: Tensor) -> tuple[Any, Any]:
        if not self.situation.balances:
            return layer(x), None
        pair = layer(x, True)
        return pair if isinstance(pair, tuple) and len(pair) == 2 else (pair, None)

    def _turn(self, layers: Sequence[Any], turn: int, around: Callable[..., Any] | None = None) -> None:
        """All layers forward, then backward, the last one first; what came is noted. ``around``: what to watch with."""
        around = around or nullcontext
        parts = [self._tokens(turn, number) for number in range(len(layers))]
        for router, experts in self.given:
            for module in (router, *experts):
                module.zero_grad()
        before = Kept(
            x=[x for x, _ in parts],
            grad=[grad for _, grad in parts],
            router=[router for router, _ in self.given],
            experts=[list(experts) for _, experts in self.given],
            ignore=("gradients", "graphs"),
        )
        with around("forward"):
            pairs = [self._forward(layer, x) for layer, (x, _) in zip(layers, parts, strict=True)]
        if self.situation.goes_back:
            with around("backward"):
                for (out, balance), (_, grad) in reversed(list(zip(pairs, parts, strict=True))):
                    _back(out, balance, grad)
        self.kept = self.kept or before.changes()
        for number, ((out, balance), (x, _)) in enumerate(zip(pairs, parts, strict=True)):
            self.outputs.append(out.detach().cpu().clone() if isinstance(out, Tensor) else out)
            self.balances.append(balance.detach().clone() if isinstance(balance, Tensor) else balance)
            self.gradients.append(self._gradients(x, *self.given[number]))

    def _gradients(self, x: Tensor, router: nn.Linear, experts: Sequence[WatchedExpert]) -> dict[str, Any]:
        """By name; an expert or a router without a gradient has None, and one without rows zeros."""
        found: dict[str, Tensor | None] = {"x": x.grad, "the router": router.weight.grad}
        for at, expert in enumerate(experts):
            for name, weight in (("up", expert.up), ("down", expert.down)):
                is_idle = weight.grad is None and not sum(expert.rows)
                found[f"its own expert {at} ({name})"] = torch.zeros_like(weight) if is_idle else weight.grad
        if not x.numel() and x.grad is None:
            found["x"] = torch.zeros_like(x)
        return {name: None if grad is None else grad.detach().cpu().clone() for name, grad in found.items()}

    def _balance_of_all(self) -> list[Any]:
        """The mean over ranks of each call's loss; what is no single number as it came."""
        found = []
        for value in self.balances:
            is_number = isinstance(value, Tensor) and value.dim() == 0
            sums = torch.tensor([float(value) if is_number else 0.0, float(is_number)], dtype=torch.float64)
            if self.count > 1:
                dist.all_reduce(sums, group=self.group)
            found.append(sums[0] / self.count if int(sums[1]) == self.count else value)
        return found

    # -- what it costs ------------------------------------------------------------------------------------------------

    def _recorded(self, layers: Sequence[Any]) -> dict[str, Any]:
        from course_lib.meter.communication.recorder import Recorder

        seen: dict[str, tuple[RingWatch, Any]] = {}
        experts = [expert for _, own in self.given for expert in own]
        for expert in experts:
            expert.rows.clear()

        @contextmanager
        def around(name: str) -> Iterator[None]:
            with Recorder(self.me.rank) as recorder, RingWatch() as watch:
                yield
            seen[name] = watch, recorder.calls

        self._turn(layers, 1, around)
        calls = {name: found for name, (_, found) in seen.items()}
        return {
            "rows": sum(sum(expert.rows) for expert in experts),
            "pieces": max(len(expert.rows) for expert in experts),
            "sent": sent_in(calls["forward"]),
            "sent_back": sent_in(calls.get("backward", ())),
            "calls": len(calls["forward"]),
            "calls_back": len(calls.get("backward", ())),
            "largest": max(watch.largest for watch, _ in seen.values()),
        }

    def _weighed(self) -> dict[str, Any]:
        """Another call, in which nobody records messages, since who records them keeps their tensors."""
        from course_lib.meter import MemoryLedger

        enough = held_bytes(self.label, self.place, self.count, ROUNDS - 1)
        with MemoryLedger(history=False) as ledger:

            def more(enough: int) -> int:
                return settled(lambda: ledger.now().total_bytes - before, enough)

            router, experts = self._modules(0)  # new ones, which the ledger sees made
            layer = self._made(router, experts)
            x, grad = self._tokens(ROUNDS - 1, 0)
            before = ledger.now().total_bytes
            out, balance = self._forward(layer, x)
            held = more(enough)
            _back(out, balance, grad)
            given_bytes = x.nbytes + grad.nbytes
            for module in (router, *experts):
                module.zero_grad()
            del out, balance, grad, x
            left = more(_SMALL_BYTES - given_bytes) + given_bytes
        return {"held": held, "left": f"{left:,} bytes" if left > _SMALL_BYTES else NOTHING}


def _back(out: Any, balance: Any, grad: Tensor) -> None:
    """Backward through the output, and through the load-balancing loss where there is one."""
    losses, grads = [], []
    if isinstance(out, Tensor) and out.requires_grad and out.shape == grad.shape:
        losses, grads = [out], [grad.to(out.dtype)]
    if isinstance(balance, Tensor) and balance.requires_grad and balance.dim() == 0:
        losses.append(balance)
        grads.append(torch.full_like(balance, PUSH))
    if losses:
        torch.autograd.backward(losses, grads)
