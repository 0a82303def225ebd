"""09.mesh: some steps of the learner's trainer on a rank of a mesh, and what is seen of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from course_lib.cluster.base.rank import Rank
from course_lib.layouts.mesh import Mesh
from course_lib.learn.exercises.lesson_05.held_numbers import numbers_held
from course_lib.learn.exercises.lesson_05.optimizer.tries import numbers_alive, sent_by_rings, settled_numbers
from course_lib.learn.exercises.lesson_09.mesh.cases import NEW_SEED, SITUATIONS, batch_of
from course_lib.learn.exercises.lesson_09.mesh.enough import SEEN, enough_numbers
from course_lib.learn.exercises.lesson_09.mesh.reports import A_TRAINER, MeshAwkwardReport
from course_lib.learn.judging.compare import short
from course_lib.learn.judging.mutation_guard import Kept
from course_lib.learn.judging.report import NOT_DEMANDED, NOTHING, first_unwaited
from course_lib.meter import Call
from course_lib.parallel.mesh.groups import MeshGroups

__all__ = ["trial"]

_NEEDED = ("step", "save", "load")


def trial(answer: Callable[..., Any], me: Rank, label: str, folder: str) -> MeshAwkwardReport:
    """What the steps of this situation show. It is judged by as much as the step of the build demands.

    ``folder``: an empty one, which all ranks see.
    """
    with torch.random.fork_rng(devices=[]):
        return _Trial(answer, me, label, Path(folder)).report()


class _Trial:
    def __init__(self, answer: Callable[..., Any], me: Rank, label: str, folder: Path) -> None:
        self.answer, self.me, self.label, self.folder = answer, me, label, folder
        self.situation, self.seed = SITUATIONS[label], torch.initial_seed()
        self.groups: list[MeshGroups] = []
        self.results: list[tuple[Any, Any]] = []
        self.facts: dict[str, Any] = {"kept": NOTHING}

    def report(self) -> MeshAwkwardReport:
        before = numbers_alive() if self.situation.is_weighed else 0
        trainer = self.trainer(3)
        missing = [name for name in _NEEDED if not callable(getattr(trainer, name, None))]
        if missing or not isinstance(getattr(trainer, "parts", None), dict):
            lacks = missing[0] if missing else "parts"
            return self._of(made=f"{A_TRAINER} is expected, and {short(trainer)} has no `{lacks}`")
        self.facts["begin"] = _copies(trainer.parts)
        stop = self.situation.stop or self.situation.num_steps
        self.run(trainer, 0, stop)
        if self.situation.is_weighed:
            self.facts["held"] = self.held(trainer, before)
        if self.situation.stop:
            trainer.save(self.folder)
            dist.barrier()
            self.facts["written"] = sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())
            del trainer
            trainer = self.trainer(NEW_SEED, after=True)
            trainer.load(self.folder)
            self.run(trainer, stop, self.situation.num_steps)
        self.facts["losses"] = [loss for loss, _ in self.results]
        self.facts["norms"] = [norm for _, norm in self.results]
        self.facts["end"] = _copies(trainer.parts)
        unwaited = first_unwaited()
        del trainer
        if torch.initial_seed() != self.seed:
            self.facts["kept"] = "the seed of random numbers"
        for groups in self.groups:
            groups.close()
        return self._of(unwaited=unwaited, gave=tuple(self.facts["norms"]), **self.facts)

    def _of(self, **facts: Any) -> MeshAwkwardReport:
        start: dict[str, Any] = dict.fromkeys(SEEN, NOT_DEMANDED)
        start |= {"made": A_TRAINER, "kept": NOTHING, "unwaited": NOTHING}
        return MeshAwkwardReport(**(start | facts))

    def trainer(self, seed: int, *, after: bool = False) -> Any:
        """The learner's, of a new model on new groups."""
        groups = MeshGroups(self.me, self.situation.mesh(self.me.world_size, after=after))
        self.groups.append(groups)
        kind, defaults = self.situation.optimizer
        model = self.situation.model(seed).to(self.me.device)
        return self.answer(self.me, groups, model, kind, self.situation.num_micro_batches, **defaults)

    def run(self, trainer: Any, begin: int, end: int) -> None:
        for step in range(begin, end):
            batch = [one.to(self.me.device) for one in batch_of(self.label, step)]
            kept = Kept(batch=batch)
            if self.situation.is_counted and step == 1:
                came = self.counted(trainer, batch)
            else:
                came = trainer.step(*batch, self.situation.max_norm)
            self.facts["kept"] = self.facts["kept"] if self.facts["kept"] != NOTHING else kept.changes() or NOTHING
            self.results.append(_pair(came))

    def counted(self, trainer: Any, batch: list[Tensor]) -> Any:
        from course_lib.meter.communication.recorder import Recorder

        with Recorder(self.me.rank) as recorder:
            came = trainer.step(*batch, self.situation.max_norm)
        self.facts["sent"] = _by_axis(recorder.calls, self.groups[0].mesh, self.me.rank)
        return came

    def held(self, trainer: Any, before: int) -> int:
        """Numbers beside the parts and what lies in their ``.grad``."""
        parts = list({id(one): one for one in trainer.parts.values() if isinstance(one, Tensor)}.values())
        beside = sum(one.numel() + (0 if one.grad is None else one.grad.numel()) for one in parts)
        enough = enough_numbers(self.label, self.groups[0].mesh, self.me.rank)
        alive = settled_numbers(before + beside + enough) - before - beside
        begin = self.facts["begin"]  # of this trial
        alive -= sum(one.numel() for one in begin.values() if isinstance(one, Tensor))
        return max(0, alive) + numbers_held([trainer], but=[self.me, *self.groups, *parts])


def _copies(parts: dict[Any, Any]) -> dict[Any, Any]:
    return {name: one.detach().cpu().clone() if isinstance(one, Tensor) else short(one) for name, one in parts.items()}


def _pair(came: Any) -> tuple[Any, Any]:
    """The loss and the norm of a step; a description where it is no pair."""
    if not isinstance(came, tuple | list) or len(came) != 2:
        return f"{short(came)}, and no pair of loss and norm", None
    loss, norm = (
        one.item() if isinstance(one, Tensor) and one.numel() == 1 else one if isinstance(one, float) else short(one)
        for one in came
    )
    return loss, norm


def _by_axis(calls: tuple[Call, ...], mesh: Mesh, rank: int) -> dict[str, int]:
    """Bytes that this rank sends along each axis; "all" for calls of ranks that differ along several."""
    found: dict[str, list[Call]] = {axis: [] for axis in ("pp", "dp_shard", "tp", "all")}
    for call in calls:
        ranks = {rank, call.peer} if call.is_message else set(call.group)
        axes = [axis for axis in mesh.axes if ranks <= set(mesh.group(rank, axis)) and len(ranks) > 1]
        if len(ranks) > 1:
            found[axes[0] if axes else "all"].append(call)
    return {axis: int(sent_by_rings(some)) for axis, some in found.items()}
