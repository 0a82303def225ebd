"""05.fsdp: a few steps of training by the learner's wrapper on a rank, and what is seen of them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.cluster.base.rank import Rank
from course_lib.learn.exercises.lesson_05.fsdp.cases import (
    MAX_NORM,
    SITUATIONS,
    STEPS,
    compared,
    numbered,
    saved_elsewhere,
)
from course_lib.learn.exercises.lesson_05.fsdp.models import WIDE_LAYERS, WIDE_NUMBERS, Probe
from course_lib.learn.exercises.lesson_05.fsdp.reports import A_MODULE, FsdpToolsReport
from course_lib.learn.exercises.lesson_05.held_numbers import numbers_held
from course_lib.learn.exercises.lesson_05.optimizer.tries import sent_by_rings
from course_lib.learn.judging.compare import short
from course_lib.learn.judging.mutation_guard import Kept
from course_lib.learn.judging.report import NOT_DEMANDED, NOTHING

__all__ = ["trial"]

_UNIT_BYTES = 8 * WIDE_NUMBERS
_LOOKS, _PAUSE_S = 20, 0.01


def trial(answer: Callable[..., Any], me: Rank, label: str) -> FsdpToolsReport:
    """What the steps of this situation show. It is judged by as much as the step of the build demands."""
    return _Trial(answer, me, label).report()


class _Trial:
    def __init__(self, answer: Callable[..., Any], me: Rank, label: str) -> None:
        self.answer, self.me, self.label, self.situation = answer, me, label, SITUATIONS[label]
        self.kept, self.seed = Kept(), torch.initial_seed()
        self.probes: list[Probe] = []

    def report(self) -> FsdpToolsReport:
        from course_lib.cluster.leaks.compare import never_waited_here

        facts: dict[str, Any] = dict.fromkeys(("rest", "between", "fullest", "evaluated", "growth"), NOT_DEMANDED)
        wrapped = self._wrapped()
        if missing := [one for one in wrapped if not _is_wrapper(one)]:
            return self._of(made=short(missing[0]))
        facts["own"] = sum(p.numel() for one in wrapped for p in one.parameters())
        given, state = Kept(), None
        if self.situation.loads:
            parts, state = list(wrapped[0].parameters()), self._on_device(saved_elsewhere(self.label))
            given = Kept(state=state)
            wrapped[0].load_full_state_dict(state)
            facts["same"] = NOTHING if _are_same(parts, wrapped[0].parameters()) else "others than before it"
        states = [one.full_state_dict() for one in wrapped]
        facts |= {"names": sorted(states[0]), "begin": numbered([_copied(state) for state in states])}
        del states
        facts |= self._trained(wrapped)
        facts["given"] = given.changes() or NOTHING
        kept = self.kept.changes() or ("the seed of random numbers" * (torch.initial_seed() != self.seed)) or NOTHING
        unwaited = next(iter(never_waited_here()), NOTHING)
        del wrapped
        self.probes.clear()
        if self.situation.is_weighed:
            facts |= self._weighed()
        if self.situation.is_held:
            facts["held"] = self._held()
        return self._of(kept=kept, unwaited=unwaited, **facts)

    def _wrapped(self) -> list[Any]:
        found = []
        for number in range(self.situation.num_models):
            model = self.situation.model(self.me.device, number)
            self.probes += [one for one in model.modules() if isinstance(one, Probe)]
            given = {} if self.situation.prefetch is None else {"prefetch": self.situation.prefetch}
            found.append(self.answer(model, self.situation.units(model), self.me, **given))
        return found

    def _of(self, **facts: Any) -> FsdpToolsReport:
        unseen = {"own", "names", "begin", "losses", "weights", "sent", "num_calls", "ahead", "ahead_back", "norms"}
        unseen |= {"rest", "between", "fullest", "evaluated", "growth", "held"}
        fine = dict.fromkeys(("kept", "unwaited", "read", "given", "same"), NOTHING)
        told: dict[str, Any] = dict.fromkeys(unseen, NOT_DEMANDED) | {"made": A_MODULE} | fine | facts
        return FsdpToolsReport(**told)

    def _on_device(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        return {name: tensor.to(self.me.device, copy=True) for name, tensor in state.items()}

    def _trained(self, wrapped: Sequence[Any]) -> dict[str, Any]:
        from course_lib.meter.communication.recorder import Recorder

        optimizers, plain = [self._optimizer(one) for one in wrapped], self.situation.model()
        names = [name for name, _ in plain.named_parameters(remove_duplicate=False)]
        num_bytes = sum(p.nbytes for p in plain.parameters())
        facts: dict[str, Any] = {"losses": [], "weights": [], "norms": [], "ahead": [], "ahead_back": []}
        for step in range(STEPS):
            with Recorder(self.me.rank) as recorder:
                self._watch_order(facts, recorder if step == STEPS - 1 else None)
                for optimizer in optimizers:
                    optimizer.zero_grad()
                losses = [self.situation.losses(one, self.me.rank, step, self.me.device) for one in wrapped]
                for found in reversed(losses):
                    for loss in found:
                        loss.backward()
                calls = recorder.calls
            if step == 0:
                facts["operations"] = tuple(call.operation for call in calls)
                facts["call_bytes"] = tuple(call.size_bytes for call in calls)
            facts |= {"sent": sent_by_rings(calls) / num_bytes, "num_calls": len(calls)}
            facts["losses"].append([loss.item() for found in losses for loss in found])
            del losses
            if self.situation.clips:
                facts["norms"].append(_number(wrapped[0].clip_grad_norm_(MAX_NORM)))
            if self.situation.loads and step == 0:
                read = Kept(part=list(wrapped[0].parameters()))
                wrapped[0].full_state_dict()
                facts["read"] = read.changes() or NOTHING
            for optimizer in optimizers:
                optimizer.step()
            weights = numbered([_copied(one.full_state_dict()) for one in wrapped], names)
            facts["weights"].append(compared(self.label, weights))
        return facts

    def _optimizer(self, wrapped: Any) -> torch.optim.Optimizer:
        learning = [p for p in wrapped.parameters() if p.requires_grad]
        return self.situation.optimizer_class(learning, **self.situation.defaults)  # type: ignore[call-arg]

    def _watch_order(self, facts: dict[str, Any], recorder: Any) -> None:
        """At each unit: how many all-gathers of this pass have begun, and how many somebody has waited for."""

        def look(when: str) -> None:
            if recorder is None:
                return
            gathers = [call for call in recorder.calls if "gather" in call.operation]
            own = gathers[len(self.probes) if when == "backward" else 0 :]  # a gather of each unit was forward's
            waited = sum(call.waited_s is not None for call in own)
            facts["ahead" if when == "forward" else "ahead_back"].append((len(own), waited))

        for probe in self.probes:
            probe.look = look

    # -- memory ---------------------------------------------------------------------------------------------------

    def _weighed(self) -> dict[str, Any]:
        """Another run of the same, in which nobody records calls, since what records them keeps what they gave."""
        from course_lib.meter import MemoryLedger

        fullest, between, rests = list[int](), list[int](), list[int]()
        with MemoryLedger(history=False) as ledger:

            def total() -> int:
                return ledger.now().total_bytes

            before = total()
            enough = before + (WIDE_LAYERS / self.me.world_size + 1) * _UNIT_BYTES
            (wrapped,) = self._wrapped()
            optimizer = self._optimizer(wrapped)
            for step in range(STEPS):
                seen = list[int]()
                for probe in self.probes:
                    probe.look = partial(_note, seen, total)
                optimizer.zero_grad()
                (loss,) = self.situation.losses(wrapped, self.me.rank, step, self.me.device)
                between.append(_settled(total, enough))
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                del loss
                fullest.append(max(seen, default=0))
                rests.append(_settled(total, enough))
            with torch.no_grad():
                self.situation.losses(wrapped, self.me.rank, STEPS, self.me.device)
            evaluated = [_settled(total, enough)]
            held_bytes = 8 * numbers_held([wrapped], but=[self.me, *wrapped.parameters()])
        self.probes.clear()
        units = [(min(found) - before + held_bytes) / _UNIT_BYTES for found in (rests, between, fullest, evaluated)]
        rest, between_units, fullest_units, evaluated_units = (round(each, 1) for each in units)
        return {
            "rest": rest,
            "between": between_units,
            "fullest": fullest_units,
            "evaluated": evaluated_units,
            "growth": "more" if rests[2] > rests[1] + 512 and rests[1] > rests[0] + 512 else NOTHING,
        }

    def _held(self) -> float:
        """How much more is in memory after a state was read and loaded, in sizes of the model."""
        from course_lib.meter import MemoryLedger

        num_bytes = sum(p.nbytes for p in self.situation.model().parameters())
        with MemoryLedger(history=False) as ledger:
            (wrapped,) = self._wrapped()
            before = ledger.now().total_bytes
            state = wrapped.full_state_dict()
            wrapped.load_full_state_dict(state)
            del state
            more = _settled(lambda: ledger.now().total_bytes, enough=before + num_bytes / 4) - before
            more += 8 * numbers_held([wrapped], but=[self.me, *wrapped.parameters()])
        self.probes.clear()
        return round(more / num_bytes, 2)


def _are_same(before: Sequence[Any], now: Iterable[Any]) -> bool:
    return [id(one) for one in before] == [id(one) for one in now]


def _note(seen: list[int], total: Callable[[], int], _when: str) -> None:
    seen.append(total())


def _settled(total: Callable[[], int], enough: float) -> int:
    """The least of a few looks: a thread of gloo may let go of a message a moment after the wait for it."""
    least = total()
    for _ in range(_LOOKS):
        if least < enough:
            break
        time.sleep(_PAUSE_S)
        least = min(least, total())
    return least


def _is_wrapper(one: Any) -> bool:
    return isinstance(one, nn.Module) and callable(getattr(one, "full_state_dict", None))


def _copied(state: dict[str, Any]) -> dict[str, Any]:
    return {
        name: tensor.detach().cpu().clone() if isinstance(tensor, Tensor) else tensor for name, tensor in state.items()
    }


def _number(norm: Any) -> Any:
    """Of a 0-d tensor; of anything else a description."""
    if isinstance(norm, Tensor) and norm.dim() == 0 and math.isfinite(norm.item()):
        return norm.item()
    return f"{type(norm).__name__} {short(norm)}"
