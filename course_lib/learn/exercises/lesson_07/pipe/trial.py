"""07.pipe: a few steps of the learner's pipeline on a rank, and what its stages noted."""

from __future__ import annotations

import gc
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef

from course_lib.base.text import counted
from course_lib.cluster.base.rank import Rank
from course_lib.learn.exercises.lesson_07.pipe.cases import (
    LEARNING_RATE,
    SITUATIONS,
    STEPS,
    batch_of,
    gradients_of,
)
from course_lib.learn.exercises.lesson_07.pipe.reports import A_PIPELINE, FINE, PipeAwkwardReport, in_words
from course_lib.learn.exercises.lesson_07.pipe.right import NOTED, actions_seen, sent_before
from course_lib.learn.exercises.lesson_07.pipe.stages import RAN_OUT, Watch, loss_of
from course_lib.learn.judging.compare import short
from course_lib.learn.judging.mutation_guard import Kept
from course_lib.learn.judging.report import NOT_DEMANDED, NOTHING, first_unwaited

__all__ = ["trial"]

_KEPT_IGNORE = ("weights", "gradients", "graphs", "settings")
_MESSAGES = ("send", "recv")


def trial(answer: Callable[..., Any], me: Rank, label: str) -> PipeAwkwardReport:
    """What the steps of this situation show. It is judged by as much as the step of the build demands."""
    return _Trial(answer, me, label).report()


class _Trial:
    def __init__(self, answer: Callable[..., Any], me: Rank, label: str) -> None:
        self.answer, self.me, self.label, self.situation = answer, me, label, SITUATIONS[label]
        self.schedule = self.situation.schedule(me.world_size)
        self.watch, self.seed = Watch(), torch.initial_seed()
        self.num_rows = [len(one) for one in batch_of(label, me.world_size, 0)[1]]
        numbers = range(self.situation.num_pipelines)
        self.stages = [self._own(number) for number in numbers]
        self.kept = Kept(stages=[list(own.values()) for own in self.stages], ignore=_KEPT_IGNORE)

    def _own(self, number: int) -> dict[int, nn.Module]:
        """This rank's stages, by their numbers."""
        model = self.situation.model(self.me.world_size, number)
        own: dict[int, nn.Module] = {}
        for stage in self.schedule.stages_of_rank[self.me.rank]:
            model[stage].watch = self.watch
            own[stage] = model[stage]
        nn.ModuleList(own.values()).to(self.me.device)
        return own

    def report(self) -> PipeAwkwardReport:
        pipelines = [self._made(number) for number in range(self.situation.num_pipelines)]
        if strange := [one for one in pipelines if not callable(getattr(one, "step", None))]:
            return self._of(made=short(strange[0]))
        ended = self._failed(pipelines[0]) if self.situation.fails else FINE
        facts = self._trained(pipelines)
        changed = self.kept.changes() or ("the seed of random numbers" * (torch.initial_seed() != self.seed))
        kept = facts.pop("kept") or changed or NOTHING
        return self._of(ended=ended, kept=kept, unwaited=first_unwaited(), **facts)

    def _of(self, **facts: Any) -> PipeAwkwardReport:
        start: dict[str, Any] = dict.fromkeys(("ended", "losses", "gradients", *NOTED), NOT_DEMANDED)
        start |= {"made": A_PIPELINE, "kept": NOTHING, "unwaited": NOTHING}
        return PipeAwkwardReport(**(start | facts))

    def _made(self, number: int) -> Any:
        model = self.situation.model(self.me.world_size)

        def room(stage: int, micro_batch: int) -> Tensor:
            first = model[stage].first
            shape = self.num_rows[micro_batch], 1 + first.in_features
            made = torch.empty(shape, dtype=first.weight.dtype, device=self.me.device)
            self.watch.rooms.append(StorageWeakRef(made.untyped_storage()))
            return made

        ties = self.situation.ties(self.me.world_size)
        given = {"ties": ties} if ties else {}
        return self.answer(self.me, dict(self.stages[number]), self.schedule, loss_of, room, **given)

    # -- steps --------------------------------------------------------------------------------------------------------

    def _given(self, step: int, number: int) -> tuple[list[Tensor] | None, list[Tensor] | None]:
        inputs, targets = (
            [one.to(self.me.device) for one in part] for part in batch_of(self.label, self.me.world_size, step, number)
        )
        ranks = self.schedule.rank_of_stage
        return (inputs if ranks[0] == self.me.rank else None), (targets if ranks[-1] == self.me.rank else None)

    def _trained(self, pipelines: Sequence[Any]) -> dict[str, Any]:
        from course_lib.meter.communication.recorder import Recorder

        facts: dict[str, Any] = {"losses": [], "gradients": [], "kept": "", "held": NOTHING, "left": NOTHING}
        for step in range(STEPS):
            if step == 0 or self.situation.clears:
                for own in self.stages:
                    nn.ModuleList(own.values()).zero_grad(set_to_none=step == 0)
            self.watch.begin()
            given = [self._given(step, number) for number in range(len(pipelines))]
            before = Kept(inputs=[x for x, _ in given], targets=[y for _, y in given])
            with Recorder(self.me.rank) as recorder:
                self.watch.num_sent = lambda recorder=recorder: sum(bool(one.sent_bytes) for one in recorder.calls)
                facts["losses"] += [_number(one.step(*each)) for one, each in zip(pipelines, given, strict=True)]
                calls = recorder.calls
            self.watch.num_sent = lambda: 0
            facts["kept"] = facts["kept"] or before.changes()
            facts["gradients"] += [gradients_of(own) for own in self.stages]
            if step == 0:
                facts |= self._noted(calls)
            if facts["left"] == NOTHING and self.watch.left() != NOTHING:
                gc.collect()
                facts["left"] = self.watch.left()
            facts |= self._counted(calls)
            self._descend()
        return facts

    def _noted(self, calls: Sequence[Any]) -> dict[str, Any]:
        """What the stages saw in this step."""
        watch = self.watch
        ran = actions_seen(watch.events, self.schedule)
        return {
            "ran": ran,
            "events": tuple(watch.events),
            "num_rooms": len(watch.rooms),
            "num_messages": sum(call.operation == "recv" for call in calls),
            "in_flight": list(watch.kept_at),
            "stale": max(watch.stale_at, default=0),
            "rooms": max(watch.rooms_at, default=0),
            "held": self._held(),
        }

    def _held(self) -> str:
        """The first action that began before what an earlier one had made has set out."""
        due = sent_before(self.schedule, self.me.rank)
        seen = set()
        for event, num_sent in zip(self.watch.events, self.watch.sent_at, strict=True):
            kind = event[0]
            if event not in seen and kind in ("F", "back") and due.get(event, 0) > num_sent:
                begun = self.schedule.label(next(a for a in self.schedule.rows[self.me.rank] if _is_of(a, event)))
                made = counted(due[event], "message")
                return f"when {begun} began, {made} had been made, and {num_sent} had set out"
            seen.add(event)
        return NOTHING

    def _counted(self, calls: Sequence[Any]) -> dict[str, Any]:
        sent = Counter((peer, size) for call in calls for peer, size in call.sent_bytes.items() if size)
        others = Counter(call.operation for call in calls if call.operation not in _MESSAGES)
        words = ", ".join(f"{count} of {name}" for name, count in others.items()) or NOTHING
        return {"sent": dict(sent), "others": words}

    def _descend(self) -> None:
        with torch.no_grad():
            for parameter in {p for own in self.stages for stage in own.values() for p in stage.parameters()}:
                if parameter.grad is not None:
                    parameter.sub_(LEARNING_RATE * parameter.grad)

    # -- a stage that fails -------------------------------------------------------------------------------------------

    def _failed(self, pipeline: Any) -> str:
        """How a step ended here in which a stage fails; the steps after it are as good as any."""
        self.watch.begin()
        self.watch.fails = self.situation.failing(self.me.world_size)
        failing = self.schedule.rank_of_stage[self.watch.fails[1]] == self.me.rank
        try:
            value = _number(pipeline.step(*self._given(0, 0)))
            if failing:
                ended = f"its stage raised {RAN_OUT!r}, and `step` returned {value}"
            elif self.situation.fails == "F" and isinstance(value, float) and math.isfinite(value):
                ended = f"a stage of another rank raised, and `step` returned the loss {value:.4g}"
            else:
                ended = FINE
        except Exception as error:
            ended = FINE
            if failing and RAN_OUT not in _texts(error):
                ended = f"its stage raised {RAN_OUT!r}, and `step` raised {error!r}"
        self.watch.fails = None
        for own in self.stages:
            nn.ModuleList(own.values()).zero_grad()
        dist.barrier()
        return ended


def _is_of(action: Any, event: tuple[str, int, int]) -> bool:
    kind, stage, i = event
    return action[1:] == (stage, i) and (action.kind == "F") == (kind == "F") and action.kind != "W"


def _texts(error: BaseException | None) -> str:
    found = ""
    while error is not None:
        found, error = f"{found} {error}", error.__cause__ or error.__context__
    return found


def _number(loss: Any) -> Any:
    """Of a tensor of one number; of anything else a description, or None."""
    if isinstance(loss, Tensor) and loss.dim() == 0:
        return loss.item()
    return None if loss is None else in_words(loss)
