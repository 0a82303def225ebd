"""10.ring: a few calls of the learner's ring on a rank, and what is seen of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor

from course_lib.cluster.base.rank import Rank
from course_lib.learn.exercises.lesson_10.call_reports import CALLABLE
from course_lib.learn.exercises.lesson_10.ring.cases import NAMES, ROUNDS, SITUATIONS, own_part, whole_of
from course_lib.learn.exercises.lesson_10.ring.reports import RingHiddenReport
from course_lib.learn.exercises.lesson_10.ring.right import COSTS, block_bytes, due_in_flight, held_bytes
from course_lib.learn.exercises.lesson_10.ring.watch import Received, RingWatch
from course_lib.learn.exercises.lesson_10.watched_calls import group_of, sent_in, settled
from course_lib.learn.judging.compare import short
from course_lib.learn.judging.mutation_guard import Kept
from course_lib.learn.judging.report import NOT_DEMANDED, NOTHING, first_unwaited

__all__ = ["trial"]

_SMALL_BYTES = 256
_MESSAGES = ("send", "recv")
_COSTS_TOO = 2


def trial(answer: Callable[..., Any], me: Rank, label: str, looks: int = _COSTS_TOO) -> RingHiddenReport:
    """What the calls of this situation show. It is judged by as much as the step of the build demands.

    ``looks``: 0 for values alone, 1 for what is computed and sent as well, 2 for memory, too.
    """
    one = SITUATIONS[label]
    members = one.members(me.world_size)
    with group_of(members, me) as group:
        if me.rank not in members:
            return _report()
        return _Trial(answer, me, label, members, group).report(min(looks, 2 * one.is_counted))


def _report(**facts: Any) -> RingHiddenReport:
    start: dict[str, Any] = dict.fromkeys(("outputs", "gradients", *COSTS), NOT_DEMANDED)
    start |= {"made": CALLABLE, "kept": NOTHING, "unwaited": NOTHING}
    return RingHiddenReport(**(start | facts))


class _Trial:
    def __init__(self, answer: Callable[..., Any], me: Rank, label: str, members: Sequence[int], group: Any) -> None:
        self.answer, self.me, self.label, self.group = answer, me, label, group
        self.situation, self.count, self.place = SITUATIONS[label], len(members), members.index(me.rank)
        self.kept, self.seed = "", torch.initial_seed()
        self.outputs: list[Any] = []
        self.gradients: list[dict[str, Any]] = []

    def report(self, looks: int) -> RingHiddenReport:
        rings = [self._made(number) for number in range(self.situation.num_objects)]
        if strange := [ring for ring in rings if not callable(ring)]:
            return _report(made=short(strange[0]))
        self._turn(rings, 0)
        facts: dict[str, Any] = {}
        if looks:
            facts |= self._recorded(rings)
        else:
            self._turn(rings, 1)
        begun = first_unwaited()
        if looks > 1 and begun == NOTHING:
            facts |= self._weighed()
        changed = self.kept or ("the seed of random numbers" * (torch.initial_seed() != self.seed)) or NOTHING
        return _report(outputs=self.outputs, gradients=self.gradients, kept=changed, unwaited=begun, **facts)

    def _made(self, number: int) -> Any:
        given = (self.me, self.situation.positions(self.count, number), self.situation.is_causal)
        return self.answer(*given) if self.group is None else self.answer(*given, self.group)

    def _given(self, turn: int, number: int) -> tuple[list[Tensor], Tensor]:
        """q, k and v of this rank, as leaves, and the gradient of its output."""
        own = self.situation.positions(self.count, number)[self.place]
        *qkv, grad = (own_part(x, own).to(self.me.device) for x in whole_of(self.label, self.count, number, turn))
        if self.situation.is_strided:
            qkv = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in qkv]
        return [x.requires_grad_(name in self.situation.needs) for name, x in zip(NAMES, qkv, strict=True)], grad

    def _forward(self, ring: Any, given: Sequence[Tensor]) -> Any:
        out = ring(*given)
        return ring(out, *given[1:]) if self.situation.is_stacked else out

    def _turn(self, rings: Sequence[Any], turn: int, around: Callable[..., Any] | None = None) -> None:
        """All rings forward, then backward, the last one first; what came is noted. ``around``: what to watch with."""
        around = around or nullcontext
        parts = [self._given(turn, number) for number in range(len(rings))]
        before = Kept(
            q_k_v=[given for given, _ in parts], grad=[grad for _, grad in parts], ignore=("gradients", "graphs")
        )
        with around("forward"):
            outs = [self._forward(ring, given) for ring, (given, _) in zip(rings, parts, strict=True)]
        if self.situation.needs:
            with around("backward"):
                for out, (_, grad) in reversed(list(zip(outs, parts, strict=True))):
                    if isinstance(out, Tensor) and out.requires_grad and out.shape == grad.shape:
                        out.backward(grad.to(out.dtype))
        self.kept = self.kept or before.changes()
        for out, (given, _) in zip(outs, parts, strict=True):
            self.outputs.append(out.detach().cpu().clone() if isinstance(out, Tensor) else out)
            grads = {name: x.grad for name, x in zip(NAMES, given, strict=True) if name in self.situation.needs}
            self.gradients.append({name: None if x is None else x.cpu() for name, x in grads.items()})

    # -- what it costs ------------------------------------------------------------------------------------------------

    def _recorded(self, rings: Sequence[Any]) -> dict[str, Any]:
        from course_lib.meter.communication.recorder import Recorder

        seen: dict[str, tuple[RingWatch, Any]] = {}

        @contextmanager
        def around(name: str) -> Iterator[None]:
            with Recorder(self.me.rank) as recorder, RingWatch(lambda: _in_flight(recorder.calls)) as watch:
                yield
            seen[name] = watch, recorder.calls

        self._turn(rings, 1, around)
        calls = {name: found for name, (_, found) in seen.items()}
        watches = {name: watch for name, (watch, _) in seen.items()}
        everything = [call for found in calls.values() for call in found]
        others = Counter(call.operation for call in everything if call.operation not in _MESSAGES)
        back = watches.get("backward")
        return {
            "work": watches["forward"].multiplications,
            "work_back": back.multiplications if back else 0,
            "others": ", ".join(f"{count} of {name}" for name, count in others.items()) or NOTHING,
            "sent": sent_in(calls["forward"]),
            "sent_back": sent_in(calls.get("backward", ())),
            "messages": sum(call.operation == "send" for call in everything),
            "largest": max(watch.largest for watch in watches.values()),
            "idle": self._idle(watches["forward"], is_backward=False),
            "idle_back": self._idle(back, is_backward=True) if back else NOTHING,
        }

    def _idle(self, watch: RingWatch, *, is_backward: bool) -> str:
        """The first block that was computed with less in flight than is due."""
        for step, seen in enumerate(watch.firsts(self.count)):
            due = block_bytes(self.situation) * due_in_flight(step, self.count, is_backward=is_backward)
            for name, there in (("arriving", seen.arriving_bytes), ("leaving", seen.leaving_bytes)):
                if there < due:
                    begun = f"when block {step + 1} of {self.count} was computed"
                    return f"{begun}, {due:,} bytes could be {name}, and {there:,} were"
        return NOTHING

    def _weighed(self) -> dict[str, Any]:
        """Another call, in which nobody records messages, since who records them keeps their tensors."""
        from course_lib.meter import MemoryLedger

        block, facts = block_bytes(self.situation), dict[str, Any]()
        with MemoryLedger(history=False) as ledger:

            def more(enough: int) -> int:
                return settled(lambda: ledger.now().total_bytes - before, enough)

            ring = self._made(0)
            given, grad = self._given(ROUNDS - 1, 0)
            before = ledger.now().total_bytes
            with Received(lambda: 2 * block) as received, RingWatch(look=received.look):
                out = self._forward(ring, given)
            facts["blocks"] = received.most_bytes
            facts["held"] = more(held_bytes(self.situation))
            if self.situation.needs and isinstance(out, Tensor) and out.requires_grad:
                with Received(lambda: 4 * block) as received, RingWatch(look=received.look):
                    out.backward(grad)
                facts["blocks_back"] = received.most_bytes
            given_bytes = sum(x.nbytes for x in given) + grad.nbytes
            del out, given, grad
            left = more(_SMALL_BYTES - given_bytes) + given_bytes
            facts["left"] = f"{left:,} bytes" if left > _SMALL_BYTES else NOTHING
        return facts


def _in_flight(calls: Sequence[Any]) -> tuple[int, int]:
    """Bytes of messages that were begun, and that nobody has waited for: arriving, and leaving."""
    open_ones = [call for call in calls if call.operation in _MESSAGES and call.waited_s is None]
    arriving = sum(call.size_bytes for call in open_ones if call.operation == "recv")
    return arriving, sum(call.size_bytes for call in open_ones if call.operation == "send")
