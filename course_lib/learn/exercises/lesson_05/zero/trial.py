"""05.zero: a few steps with the learner's optimizer on each rank, and what is seen of them."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.cluster.base.rank import Rank
from course_lib.learn.exercises.lesson_05.held_numbers import numbers_held
from course_lib.learn.exercises.lesson_05.optimizer.tries import numbers_alive, sent_by_rings, settled_numbers
from course_lib.learn.exercises.lesson_05.zero.cases import SITUATIONS, STEPS, ZeroSituation, gradients
from course_lib.learn.exercises.lesson_05.zero.reports import AN_OPTIMIZER, ZeroMemoryReport, right
from course_lib.learn.judging.compare import short
from course_lib.learn.judging.mutation_guard import Kept
from course_lib.learn.judging.report import NOTHING

__all__ = ["trial"]

_MAY_CHANGE = ("weights", "gradients", "hooks", "settings")


def trial(answer: Callable[..., Any], me: Rank, label: str) -> ZeroMemoryReport:
    """What the steps of this situation show. It is judged by as much as the step of the build demands."""
    return _Trial(answer, me, label).report()


class _Trial:
    def __init__(self, answer: Callable[..., Any], me: Rank, label: str) -> None:
        self.answer, self.me, self.label = answer, me, label
        self.situation: ZeroSituation = SITUATIONS[label]
        numbers = range(self.situation.num_models)
        self.models = [self.situation.parameters(me.device, model) for model in numbers]
        self.drawn = [[self._gradients(step, model) for model in numbers] for step in range(STEPS)]
        self.others = {id(one) for one in _optimizers()}
        self.seed = torch.initial_seed()
        self.kept = Kept(ignore=_MAY_CHANGE, parameters=[p for model in self.models for p in model])
        self.before = numbers_alive() if self.situation.is_weighed else 0

    def report(self) -> ZeroMemoryReport:
        from course_lib.cluster.leaks.compare import never_waited_here

        optimizers = [self._made(model) for model in self.models]
        missing = [one for one in optimizers if not _is_optimizer(one)]
        if missing:
            return self._of(made=short(missing[0]), weights=[])
        seen: list[list[Any]] = []
        sent, calls, looks, unwaited = 0.0, [0], list[int](), NOTHING
        operations: tuple[str, ...] = ()
        for step in range(STEPS):
            sent_bytes, operations = self._step(optimizers, step)
            sent, calls = max(sent, sent_bytes), [*calls, len(operations)]
            seen.append([p.detach().cpu().numpy().copy() for model in self.models for p in model])
            unwaited = next(iter(never_waited_here()), unwaited) if unwaited == NOTHING else unwaited
            if step % 2 and self.situation.is_weighed:
                looks.append(self._look(optimizers, looks))
        facts: dict[str, Any] = {"parts": None, "growth": None}
        if looks:
            num_part = self.situation.num_own(self.me.world_size)
            parts = max(0, min(looks) - self.before) / num_part
            facts = {"parts": parts, "growth": looks[-1] - looks[0]}
        return self._of(
            weights=[[torch.from_numpy(one) for one in step] for step in seen],
            kept=self.kept.changes() or ("the seed of random numbers" * (torch.initial_seed() != self.seed)) or NOTHING,
            unwaited=unwaited,
            sent=sent / (8 * self.situation.num_all),
            num_calls=max(calls),
            operations=operations,
            num_states=sum(_num_states(one) for one in _optimizers() if id(one) not in self.others),
            **facts,
        )

    def _made(self, parameters: list[nn.Parameter]) -> Any:
        situation = self.situation
        return self.answer(iter(parameters), situation.optimizer_class, self.me, **situation.defaults)

    def _of(self, **facts: Any) -> ZeroMemoryReport:
        wanted = right(self.label, ZeroMemoryReport)(self.me.rank, self.me.world_size)
        facts = {"made": AN_OPTIMIZER, "kept": NOTHING, "unwaited": NOTHING} | facts
        if facts["made"] != AN_OPTIMIZER:
            facts["weights"] = wanted.weights
        unseen: dict[str, Any] = dict.fromkeys(("sent", "num_calls", "parts", "growth"), 0)
        told: dict[str, Any] = unseen | facts
        return ZeroMemoryReport(**told)

    def _gradients(self, step: int, model: int) -> list[Tensor]:
        drawn = gradients(self.label, self.me.rank, step, model)
        return [one.to(self.me.device, self.situation.dtype(at)) for at, one in enumerate(drawn)]

    def _step(self, optimizers: Sequence[Any], step: int) -> tuple[float, tuple[str, ...]]:
        """``zero_grad``, backward and ``step``: the bytes that were sent, and the names of the operations."""
        from course_lib.meter.communication.recorder import Recorder

        if self.situation.rates:
            for optimizer in optimizers:
                for group in optimizer.param_groups:
                    group["lr"] = self.situation.rates[step]
        with Recorder(self.me.rank) as recorder:
            for optimizer, model, drawn in zip(optimizers, self.models, self.drawn[step], strict=True):
                optimizer.zero_grad()
                used = [(p, one) for at, (p, one) in enumerate(zip(model, drawn, strict=True)) if self._uses(at)]
                torch.stack([(p * one).sum().double() for p, one in used]).sum().backward()
            for optimizer in reversed(optimizers):
                optimizer.step()
        return sent_by_rings(recorder.calls), tuple(call.operation for call in recorder.calls)

    def _uses(self, at: int) -> bool:
        return not (self.me.rank % 2 and at in self.situation.unused_on_odd_ranks)

    def _look(self, optimizers: Sequence[Any], looks: Sequence[int]) -> int:
        """Numbers in memory, once the gradients of the model are gone."""
        for model in self.models:
            for parameter in model:
                parameter.grad = None
        enough = self.before + 5 * self.situation.num_own(self.me.world_size) + 64
        given = [self.me, *(p for model in self.models for p in model)]
        return settled_numbers(looks[0] if looks else enough) + numbers_held(list(optimizers), but=given)


def _is_optimizer(one: Any) -> bool:
    return callable(getattr(one, "step", None)) and callable(getattr(one, "zero_grad", None))


def _optimizers() -> list[torch.optim.Optimizer]:
    return [thing for thing in gc.get_objects() if issubclass(type(thing), torch.optim.Optimizer)]


def _num_states(optimizer: torch.optim.Optimizer) -> int:
    """Numbers in the states that torch's optimizers keep, but for single ones."""
    states = [value for state in optimizer.state.values() for value in state.values()]
    return sum(value.numel() for value in states if isinstance(value, Tensor) and value.numel() > 1)
