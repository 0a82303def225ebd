"""04.ddp: three steps of training by the learner's DDP on a rank, and what is seen of them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from course_lib.cluster.base.rank import Rank
from course_lib.learn.exercises.lesson_04.ddp.cases import (
    LEARNING_RATE,
    SITUATIONS,
    STEPS,
    UNORDERED,
    Situation,
    weights_by_name,
)
from course_lib.learn.exercises.lesson_04.ddp.reports import LOOKED_AT, OTHER_PARAMETERS, AwkwardReport
from course_lib.learn.exercises.lesson_04.overlap.waits import watched_waits
from course_lib.learn.exercises.lesson_04.tries import reseeded
from course_lib.learn.judging.mutation_guard import Kept
from course_lib.learn.judging.report import NOT_DEMANDED, NOTHING

__all__ = ["GIVEN", "NOTHING_TO_TRAIN", "trial"]

GIVEN = "an `all_reduce` that it is given"
NOTHING_TO_TRAIN = "a module with nothing to train"
_LOOKS = 20
_EMPTY = "non-empty list"  # what `torch.cat` says of no tensors at all
_KEPT_IGNORE = ("weights", "gradients", "buffers", "hooks", "settings")


def trial(answer: Callable[..., Any], me: Rank, label: str) -> Any:
    """What the steps of this situation show. It is judged by as much as the step of the build demands."""
    if label == GIVEN:
        return _given(answer, me)
    if label == NOTHING_TO_TRAIN:
        return _untrained(answer, me)
    return _Trial(answer, me, SITUATIONS[label]).report()


class _Trial:
    def __init__(self, answer: Callable[..., Any], me: Rank, situation: Situation) -> None:
        self.me, self.situation = me, situation
        self.model = situation.model(me.rank, me.device)
        self.begun: list[int] = []  # all-reduces begun when each gradient came
        self.waited: list[int] = []
        self.read: Callable[[], tuple[int, int]] | None = None
        for parameter in self.model.parameters():
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(self._note)  # before the learner's, so that it runs first
        self.seen: list[dict[str, Tensor]] = []
        self.handle = next(self.model.children()).register_forward_pre_hook(self._look_at_buffers)
        self.kept, self.seed = Kept(model=self.model, ignore=_KEPT_IGNORE), torch.initial_seed()
        self.answer = answer

    def _note(self, _: nn.Parameter) -> None:
        if self.read is not None:
            begun, waited = self.read()
            self.begun.append(begun)
            self.waited.append(waited)

    def _look_at_buffers(self, *_: Any) -> None:
        if self.situation.checks_buffers:
            self.seen.append({name: buffer.cpu().clone() for name, buffer in self.model.named_buffers()})

    def report(self) -> Any:
        from course_lib.cluster.leaks.compare import never_waited_here

        names = list(self.model.state_dict())
        ddp = self.situation.wrapped(self.answer, self.model, self.me)
        begin = weights_by_name(self.model)
        facts = self._recorded(ddp)
        unwaited = never_waited_here()
        self.handle.remove()
        return AwkwardReport(
            names=_names(ddp, names, self.model),
            begin=begin,
            weights=weights_by_name(self.model),
            kept=self.kept.changes() or reseeded(self.seed) or NOTHING,
            unwaited=unwaited[0] if unwaited else NOTHING,
            buffers=self.seen,
            **facts,
            **self._memory(ddp),
        )

    def _recorded(self, ddp: Any) -> dict[str, Any]:
        """The facts of three steps whose calls are recorded; the recorder, which holds what was sent, goes with it."""
        from course_lib.meter.communication.recorder import Recorder

        facts: dict[str, Any] = {"gradients": [], "messages": [], "early": [], "waits": 0, "quiet": 0, "views": []}
        with Recorder(self.me.rank) as recorder, watched_waits() as waits:
            for step in range(STEPS):
                first, before = len(recorder.calls), waits.count
                self.read = lambda first=first: (_num_all_reduces(recorder.calls[first:]), waits.count)
                self.begun.clear()
                self.waited.clear()
                facts["quiet"] += self._step(ddp, step, lambda: len(recorder.calls))
                self.read = None
                facts["gradients"].append(_gradients(self.model))
                facts["early"].append(list(self.begun))
                facts["waits"] += (self.waited[-1] - before) if self.waited else 0
                facts["views"].append(_num_storages(self.model))
                sizes = [call.size_bytes for call in recorder.calls[first:] if call.operation == "all_reduce"]
                facts["messages"].append(sorted(sizes) if self.situation.label in UNORDERED else sizes)
                self._descend()
            calls = recorder.calls
        others = Counter(call.operation for call in calls if call.operation != "all_reduce")
        return facts | {
            "others": ", ".join(f"{count} of {name}" for name, count in others.items()) or "none",
            "num_calls": _num_all_reduces(calls),
            "operations": tuple(call.operation for call in calls),
            "call_dtypes": tuple(str(call.dtype) for call in calls),
        }

    def _step(self, ddp: Any, step: int, num_calls: Callable[[], int]) -> int:
        """Forward and backward; how many calls were made inside ``no_sync``."""
        ddp.zero_grad(set_to_none=step != 1)
        losses, quiet = self.situation.losses(ddp, self.me.rank, self.me.world_size, step, self.me.device), 0
        for loss in losses[:-1]:
            before = num_calls()
            with ddp.no_sync():
                if step == 1:
                    _one_inside_another(ddp)
                loss().backward()
            quiet += num_calls() - before
        if len(losses) > 1 and step == 0:
            _raise_inside(ddp)
        losses[-1]().backward()
        return quiet

    def _descend(self) -> None:
        with torch.no_grad():
            for parameter in self.model.parameters():
                if parameter.grad is not None and parameter.requires_grad:
                    parameter.sub_(LEARNING_RATE * parameter.grad)

    def _memory(self, ddp: Any) -> dict[str, Any]:
        if not self.situation.is_weighed:
            return {"stays": NOT_DEMANDED, "peak": NOT_DEMANDED, "growth": NOT_DEMANDED}
        from course_lib.meter import MemoryLedger

        model_bytes = sum(parameter.nbytes for parameter in self.model.parameters())
        ddp.zero_grad()
        ends, peaks = list[int](), list[int]()
        with MemoryLedger(self.model, history=False) as ledger:
            for step in range(STEPS):
                seen = list[int]()
                self.read = lambda seen=seen: (seen.append(ledger.now().total_bytes) or 0, 0)
                self._step(ddp, step, lambda: 0)
                self.read = None
                peaks.append(max(seen) - model_bytes)
                ends.append(_settled(lambda: ledger.now().total_bytes, model_bytes) - model_bytes)
        return {
            "stays": round(min(ends) / model_bytes, 1),
            "peak": round(min(peaks[1:]) / model_bytes, 1),
            "growth": "more" if ends[2] > ends[1] > ends[0] else NOTHING,
        }


def _settled(total_bytes: Callable[[], int], model_bytes: int) -> int:
    """A thread of gloo may let go of the last all-reduce a moment after the wait for it."""
    for _ in range(_LOOKS):
        if total_bytes() < 2.2 * model_bytes:
            break
        time.sleep(0.01)
    return total_bytes()


def _one_inside_another(ddp: Any) -> None:
    """Its end puts back what it found: the outer one is still there."""
    with ddp.no_sync():
        pass


def _raise_inside(ddp: Any) -> None:
    """What ``no_sync`` has changed is to be put back, also after an error."""
    try:
        with ddp.no_sync():
            raise KeyError
    except KeyError:
        return


def _given(answer: Callable[..., Any], me: Rank) -> Any:
    """A step of an answer that was given a function for its sums."""
    asked = []

    def own_all_reduce(tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
        asked.append(tensor.nbytes)
        return dist.all_reduce(tensor, *args, **kwargs)

    situation = SITUATIONS["three layers"]
    one = _Trial(lambda *args, **kwargs: answer(*args, all_reduce=own_all_reduce, **kwargs), me, situation)
    found = one.report()
    if not isinstance(found, AwkwardReport):
        return found
    by = "what it was given" if len(asked) == found.num_calls and asked else "not all sums go by the `all_reduce` given"
    return replace(found, sums_by=by)


def _names(ddp: Any, names: list[str], model: nn.Module) -> list[str]:
    """Of ``state_dict()``; what ``parameters()`` gives is named where it is not the module's."""
    got = list(ddp.state_dict())
    same = {id(one) for one in ddp.parameters()} == {id(one) for one in model.parameters()}
    return got if same else [*got, OTHER_PARAMETERS]


def _untrained(answer: Callable[..., Any], me: Rank) -> Any:
    """A module whose parameters are all frozen runs once it is wrapped, or is refused with a sentence."""
    model = SITUATIONS["three layers"].model(me.rank, me.device).requires_grad_(False)
    x = torch.ones(2, 8, dtype=torch.float64, device=me.device)
    try:
        ddp = answer(model, me, bucket_bytes=1000)
        said = "" if torch.equal(ddp(x), model(x)) else "its forward pass gives something else than the module's"
    except (ValueError, RuntimeError) as error:
        said = str(error) if _EMPTY in str(error) or not str(error) else ""
    facts: dict[str, Any] = dict.fromkeys(LOOKED_AT, NOT_DEMANDED)
    return AwkwardReport(**facts, gradients=[], untrained=said or "fine")


def _gradients(model: nn.Module) -> dict[str, Tensor | None]:
    learning = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    return {name: None if p.grad is None else p.grad.detach().cpu().clone() for name, p in learning}


def _num_storages(model: nn.Module) -> int:
    """In how many pieces of memory the gradients lie."""
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    return len({gradient.untyped_storage().data_ptr() for gradient in gradients})


def _num_all_reduces(calls: Any) -> int:
    return sum(call.operation == "all_reduce" for call in calls)
