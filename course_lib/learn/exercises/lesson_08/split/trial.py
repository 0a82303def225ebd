"""08.split: a few steps by the learner's split transformer on a rank, and what is seen of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from course_lib.cluster.base.rank import Rank
from course_lib.learn.exercises.lesson_05.optimizer.tries import sent_by_rings
from course_lib.learn.exercises.lesson_08.split.cases import SITUATIONS, STEPS, batch_of
from course_lib.learn.exercises.lesson_08.split.masks import seen_of_masks
from course_lib.learn.exercises.lesson_08.split.reports import A_SPLIT_MODEL, FINE, SplitAwkwardReport
from course_lib.learn.exercises.lesson_08.split.weighing import Widest, weighed
from course_lib.learn.judging.compare import short
from course_lib.learn.judging.mutation_guard import Kept
from course_lib.learn.judging.report import NOT_DEMANDED, NOTHING, first_unwaited

__all__ = ["SEEN", "trial"]

SEEN = (  # in some cases
    *("begin", "losses", "gradients", "later_losses", "widest", "besides", "forward", "backward"),
    *("held", "saved", "left", "agree", "heads", "places", "in_a_step", "again", "generators"),
)
_MOVE = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send", "recv")


def trial(answer: Callable[..., Any], me: Rank, label: str) -> SplitAwkwardReport:
    """What the steps of this situation show. It is judged by as much as the step of the build demands."""
    with torch.random.fork_rng(devices=[]):  # ranks are seeded alike
        torch.manual_seed(3)
        return _Trial(answer, me, label).report()


class _Trial:
    def __init__(self, answer: Callable[..., Any], me: Rank, label: str) -> None:
        self.answer, self.me, self.label, self.situation = answer, me, label, SITUATIONS[label]
        self.seed = torch.initial_seed()
        self.group, self.others = self._groups()
        self.models = [self.situation.model(number).to(me.device) for number in range(self.situation.num_models)]
        self.kept: Any = Kept(models=self.models)

    def _groups(self) -> tuple[Any, list[Any]]:
        """This rank's group, None for everybody; all ranks make all of them."""
        groups = self.situation.groups(self.me.world_size)
        if len(groups) == 1:
            return None, []
        made = {ranks: dist.new_group(list(ranks)) for ranks in groups}
        return made[self.situation.members(self.me.rank, self.me.world_size)], list(made.values())

    def make(self, model: Any) -> Any:
        """The learner's object for this model."""
        given: dict[str, Any] = {} if self.group is None else {"group": self.group}
        return self.answer(self.me, model, **(given | ({"sequence": True} if self.situation.sequence else {})))

    def batch(self, step: int, number: int = 0) -> tuple[Tensor, Tensor]:
        """Tokens and targets on this rank's device."""
        tokens, targets = batch_of(self.label, step, number)
        return tokens.to(self.me.device), targets.to(self.me.device)

    def report(self) -> SplitAwkwardReport:
        if self.situation.refuses(self.me.world_size):
            return self._of(refused=self._refused())
        split = [self.make(model) for model in self.models]
        if strange := [one for one in split if not _is_split(one)]:
            return self._of(made=short(strange[0]))
        facts: dict[str, Any] = {"begin": {f"{n}{name}": t for n, name, t in _named(split, "data")}}
        if self.situation.looks_at:
            facts |= seen_of_masks(self, split[0])
        else:
            facts |= self._trained(split)
            facts["later_losses"] = facts["losses"]
        kept = facts.pop("kept", "") or self.kept.changes()
        kept = kept or "the seed of random numbers" * (torch.initial_seed() != self.seed) or NOTHING
        unwaited = first_unwaited()
        del split
        if self.situation.is_weighed:
            facts |= weighed(self)
        for group in self.others:
            if group is not dist.GroupMember.NON_GROUP_MEMBER:
                dist.destroy_process_group(group)
        return self._of(kept=kept, unwaited=unwaited, **facts)

    def _of(self, **facts: Any) -> SplitAwkwardReport:
        start: dict[str, Any] = dict.fromkeys(SEEN, NOT_DEMANDED)
        start |= {"made": A_SPLIT_MODEL, "refused": FINE, "kept": NOTHING, "unwaited": NOTHING}
        return SplitAwkwardReport(**(start | facts))

    def _refused(self) -> str:
        """Whether a ValueError came that says the numbers of which one does not divide by the other."""
        due = self.situation.refuses(self.me.world_size)
        try:
            self.make(self.models[0]).loss(*self.batch(0))
        except ValueError as error:
            missing = [word for word in due if word not in str(error)]
            return f"its error does not say {missing[0]}: {error}" if missing else FINE
        return f"{due[0]} do not divide among {due[1]} ranks; a ValueError that says both is expected, and none came"

    # -- steps ---------------------------------------------------------------------------------------------------------

    def _trained(self, split: Sequence[Any]) -> dict[str, Any]:
        facts: dict[str, Any] = {"losses": [], "gradients": [], "kept": ""}
        for step in range(STEPS):
            if step == 0 or self.situation.clears:
                _clear(split, to_none=step == 0)
            facts |= self._step(split, step, facts)
            facts["gradients"].append({f"{number}{name}": one for number, name, one in _named(split, "grad")})
            with torch.no_grad():
                for part in _unique(split):
                    if part.grad is not None:
                        part.sub_(self.situation.rate * part.grad)
        return facts

    def _step(self, split: Sequence[Any], step: int, facts: dict[str, Any]) -> dict[str, Any]:
        from course_lib.meter.communication.recorder import Recorder

        given = [self.batch(step, number) for number in range(len(split))]
        before = Kept(batch=given)
        with Recorder(self.me.rank) as recorder, Widest(self.situation.dtype) as widest:
            losses = [one.loss(*batch) for one, batch in zip(split, given, strict=True)]
            num_forward = len(recorder.calls)
            for loss in losses:
                if isinstance(loss, Tensor) and loss.requires_grad:
                    loss.sum().backward()
            calls = recorder.calls
        facts["losses"] += [_number(loss) for loss in losses]
        found: dict[str, Any] = {"kept": facts["kept"] or before.changes()}
        if step > 0:
            return found
        found |= {"operations": tuple(call.operation for call in calls), "num_forward": num_forward}
        found["is_narrow"] = widest.is_narrow
        gathered = [call.size_bytes // 8 * len(call.group) for call in calls if "gather" in call.operation]
        found["widest"] = (widest.numbers, max(gathered, default=0))
        others = Counter(call.operation for call in calls if call.operation not in _MOVE)
        found["besides"] = ", ".join(f"{count} of {name}" for name, count in others.items()) or NOTHING
        found["forward"], found["backward"] = (
            (len(some), int(sent_by_rings(some))) for some in (calls[:num_forward], calls[num_forward:])
        )
        return found


def _is_split(one: Any) -> bool:
    parts = getattr(one, "parts", None)
    return isinstance(parts, dict) and callable(getattr(one, "loss", None))


def _named(split: Sequence[Any], what: str) -> list[tuple[str, str, Any]]:
    """Each part, or its gradient, of several models by the model's number (none where it is one) and its name."""
    found = []
    for number, one in enumerate(split):
        for name, part in one.parts.items():
            value = getattr(part, what, short(part))
            if value is not None:
                text = f"{number}." if len(split) > 1 else ""
                found.append((text, name, value.detach().cpu().clone() if isinstance(value, Tensor) else value))
    return found


def _unique(split: Sequence[Any]) -> list[Tensor]:
    return list({id(part): part for one in split for part in one.parts.values() if isinstance(part, Tensor)}.values())


def _clear(split: Sequence[Any], *, to_none: bool) -> None:
    for part in _unique(split):
        if part.grad is not None:
            part.grad = None if to_none else part.grad.detach().zero_()


def _number(loss: Any) -> Any:
    """Of a tensor of one number; of anything else a description."""
    if isinstance(loss, Tensor) and loss.dim() == 0:
        return loss.item()
    return f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else short(loss)
