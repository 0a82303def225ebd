"""12.job: what is done with the learner's job on a rank, and what is seen of it."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from course_lib.cluster.base.rank import Rank
from course_lib.learn.exercises.lesson_05.optimizer.tries import sent_by_rings
from course_lib.learn.exercises.lesson_12.job.cases import NEW_SEED, SEED, SITUATIONS, batch_of, loss_of
from course_lib.learn.exercises.lesson_12.job.disk import (
    WHEN_RETURNED,
    DiskState,
    different_states,
    put,
    read_folder,
    watched_folder,
)
from course_lib.learn.exercises.lesson_12.job.reports import FINE, JobReport, ResumedRun, blank
from course_lib.learn.exercises.lesson_12.job.told import damage, error_words, first_wrong, share_of_step, text_names
from course_lib.learn.judging.compare import short
from course_lib.learn.judging.report import NOTHING, first_unwaited

__all__ = ["trial"]

_METHODS = ("samples", "run", "save", "resume")
_LATE_S = 0.05


def trial(answer: Callable[..., Any], me: Rank, label: str, root: str, is_before: bool = False) -> JobReport:
    """What this situation shows. ``root``: an empty folder; ``is_before``: the life on another number of ranks."""
    return _Trial(answer, me, label, Path(root)).report(is_before)


def _of_all(states: list[DiskState]) -> list[tuple[int, DiskState]]:
    """Each state that any rank has seen, once."""
    of_ranks: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(of_ranks, states)
    return different_states(of_ranks)


class _Trial:
    def __init__(self, answer: Callable[..., Any], me: Rank, label: str, root: Path) -> None:
        self.answer, self.me, self.label, self.root = answer, me, label, root
        self.situation, self.seed = SITUATIONS[label], torch.initial_seed()
        self.folder = root / "job"
        if me.rank == 0:
            self.folder.mkdir(exist_ok=True)
        dist.barrier()

    def report(self, is_before: bool) -> JobReport:
        probe = self.made()
        if missing := [name for name in _METHODS if not callable(getattr(probe[0], name, None))]:
            return blank(made=f"{short(probe[0])} without `{missing[0]}`")
        facts = self._before(probe) if is_before else getattr(self, f"_{self.situation.kind}")(probe)
        kept = "the seed of random numbers" if torch.initial_seed() != self.seed else NOTHING
        return blank(kept=kept, unwaited=first_unwaited(), **facts)

    # -- jobs -------------------------------------------------------------------------------------------------------

    def made(self, folder: Path | None = None, *, is_new: bool = False) -> tuple[Any, Any]:
        """A job and its model. ``is_new``: of a process that has begun again, whose weights mean nothing."""
        model, optimizer, schedule = self.situation.made(self.me.device, NEW_SEED if is_new else 1)
        job = self.answer(
            self.me, folder or self.folder, model, optimizer, loss_of(self.situation.num_samples),
            self.situation.num_samples, self.situation.batch_size, schedule=schedule, seed=SEED,
            every=self.situation.every,
        )  # fmt: skip
        return job, model

    def weights(self, model: torch.nn.Module) -> dict[str, torch.Tensor]:
        return {name: one.detach().cpu().clone() for name, one in model.state_dict().items()}

    def ran(self, made: tuple[Any, Any]) -> dict[str, Any]:
        """To each stop and to the end."""
        losses: list[Any] = []
        for stop in (*self.situation.stops, self.situation.until):
            came = made[0].run(stop)
            if not isinstance(came, list | tuple):
                return {"losses": came, "weights": self.weights(made[1])}
            losses += came
        return {"losses": losses, "weights": self.weights(made[1])}

    def resumed(self, of: str, folder: Path, may_be: tuple[int, ...], until: int = 0) -> ResumedRun:
        """New objects go on in this folder. An error is noted where every rank has one."""
        until, step, losses = until or self.situation.until, None, None
        stop = may_be[-1]
        try:
            job, model = self.made(folder, is_new=True)
            step = job.resume()
            step = step.item() if isinstance(step, torch.Tensor) and step.numel() == 1 else step
            if step in may_be:
                losses = job.run(until)
        except Exception as error:
            return ResumedRun(of, stop, step, losses, {}, error_words(error), may_be)
        return ResumedRun(of, stop, step, losses, self.weights(model), "", may_be)

    def found(self, runs: list[ResumedRun]) -> dict[str, Any]:
        return {"again": first_wrong(self.label, runs, self.situation.until) or FINE, "runs": tuple(runs)}

    # -- situations -------------------------------------------------------------------------------------------------

    def _plain(self, made: tuple[Any, Any]) -> dict[str, Any]:
        return self.ran(made)

    def _samples(self, made: tuple[Any, Any]) -> dict[str, Any]:
        steps = [*range(2 * self.situation.num_batches), 97]
        mine = [made[0].samples(step) for step in steps]
        shares: list[Any] = [None] * self.me.world_size
        dist.all_gather_object(shares, mine)
        told = [
            share_of_step(step, batch_of(self.situation, step), [one[at] for one in shares])
            for at, step in enumerate(steps)
        ]
        return {"shares": next(filter(None, told), FINE), **self.ran(made)}

    def _resume(self, made: tuple[Any, Any]) -> dict[str, Any]:
        runs = []
        for stop in self.situation.stops:
            folder = self.sub(f"stopped_{stop}")
            job, _ = self.made(folder)
            job.run(stop)
            dist.barrier()  # when a save may return is a question of the next step
            stored = stop - stop % self.situation.every
            runs.append(self.resumed(f"stopped after step {stop - 1}", folder, (stored,)))
        return self.found(runs)

    def _before(self, made: tuple[Any, Any]) -> dict[str, Any]:
        losses = made[0].run(self.situation.stops[-1])
        return {"losses": losses, "weights": self.weights(made[1])}

    def _other(self, made: tuple[Any, Any]) -> dict[str, Any]:
        stop = self.situation.stops[-1]
        before = self.situation.other(self.me.world_size)
        of = f"stopped on {before} ranks after step {stop - 1}"
        return self.found([self.resumed(of, self.folder, (stop - stop % self.situation.every,))])

    def _torn(self, made: tuple[Any, Any]) -> dict[str, Any]:
        job, (*_, before, last) = made[0], (0, *self.situation.stops)
        returned = self._returned(job, before)
        with watched_folder(self.folder, late_s=_LATE_S if self.me.rank else 0.0) as seen:
            job.run(last)
        dist.barrier()
        seen.end()
        stored = self._stored()
        kills = [(rank, state, (before,)) for rank, state in _of_all([returned])]
        kills += [(rank, state, (last,) if state.is_after else (before, last)) for rank, state in _of_all(seen.states)]
        runs = []
        for at, kill in enumerate(kills):
            run = self._after_kill(at, *kill)
            runs.append(run)
            wrong: list[Any] = [None] * self.me.world_size
            dist.all_gather_object(wrong, first_wrong(self.label, [run], self.situation.until))
            if any(wrong):
                break  # one is enough
        return self.found(runs) | {"stored": stored}

    def _returned(self, job: Any, step: int) -> DiskState:
        """The folder as it is when the save of ``step`` has returned on this rank, where whoever writes is late."""
        job.run(step - 1)
        with watched_folder(self.folder, late_s=_LATE_S):
            job.run(step)
            state = DiskState(read_folder(self.folder), WHEN_RETURNED, is_after=True)
        dist.barrier()
        return state

    def _after_kill(self, at: int, rank: int, state: DiskState, may_be: tuple[int, ...]) -> ResumedRun:
        folder = self.root / f"killed_{at}"
        if self.me.rank == 0:
            put(state.files, folder)
        dist.barrier()
        return self.resumed(f"killed in the save of step {may_be[-1]}, on rank {rank}, {state.moment}", folder, may_be)

    def _cost(self, made: tuple[Any, Any]) -> dict[str, Any]:
        from course_lib.meter.communication.recorder import Recorder

        job = made[0]
        job.run(self.situation.stops[0])
        with Recorder(self.me.rank) as recorder:
            job.run(self.situation.stops[1])
            calls = list(recorder.calls)
        steps = self.situation.stops[1] - self.situation.stops[0]
        facts = {
            "step_sent": int(sent_by_rings(calls) / steps),
            "others": next((one.operation for one in calls if one.operation in ("barrier", "broadcast")), NOTHING),
        }
        with Recorder(self.me.rank) as recorder, watched_folder(self.folder) as seen:
            job.save()
            sent = sum(sum(one.sent_bytes.values()) for one in recorder.calls)
        dist.barrier()
        seen.end()
        writes: list[Any] = [None] * self.me.world_size
        dist.all_gather_object(writes, sum(seen.written.values()))
        facts |= {"sent": sent, "written": sum(writes)}
        writer = next((rank for rank, count in enumerate(writes) if count), 0)
        return facts | self._full(job, writer)

    def _full(self, job: Any, writer: int) -> dict[str, Any]:
        """The next save finds a full disk on one rank; then one that does not, and a new job."""
        first, second = self.situation.stops[1], self.situation.until
        job.run(second - 1)
        told = "`save` returned as if all were well"
        with watched_folder(self.folder, is_full=self.me.rank == writer) as seen:
            try:
                job.save()
            except Exception as error:
                told = FINE if "No space left" in error_words(error) else f"`save` raised {error!r:.80} there"
        dist.barrier()
        refused: list[Any] = [None] * self.me.world_size
        dist.all_gather_object(refused, seen.refused)
        if not any(refused):
            return self.found([]) | {"told": "But it opened no file in the folder, where a draft belongs"}
        runs = [self.resumed("after a save that failed", self.folder, (first,))]
        job.run(second)
        job.save()
        dist.barrier()
        runs.append(self.resumed("after the next save", self.folder, (second,)))
        return {"told": told, **self.found(runs)}

    def _empty(self, made: tuple[Any, Any]) -> dict[str, Any]:
        step = made[0].resume()
        run = ResumedRun("an empty folder", 0, step, made[0].run(self.situation.until), self.weights(made[1]), "", (0,))
        return self.found([run])

    def _damaged(self, made: tuple[Any, Any]) -> dict[str, Any]:
        job, (before, last) = made[0], self.situation.stops
        job.run(before)
        dist.barrier()
        old = read_folder(self.folder)
        job.run(last)
        dist.barrier()
        names = [damage(self.folder, old, self.situation.damage)] if self.me.rank == 0 else [""]
        dist.broadcast_object_list(names, src=0)
        printed = io.StringIO()
        with warnings.catch_warnings(record=True) as warned, contextlib.redirect_stdout(printed):
            warnings.simplefilter("always")
            with contextlib.redirect_stderr(printed):
                run = self.resumed(f"the newest checkpoint is damaged ({names[0]})", self.folder, (before,))
        texts: list[Any] = [None] * self.me.world_size
        dist.all_gather_object(texts, printed.getvalue() + " ".join(str(one.message) for one in warned))
        said = FINE if any(text_names(text, names[0]) for text in texts) else f"no rank named {names[0]} in a sentence"
        return self.found([run]) | {"said": said}

    def _foreign(self, made: tuple[Any, Any]) -> dict[str, Any]:
        strangers = {"notes.txt": b"lr 0.05 was too large", "old/readme": b"of last year"}
        if self.me.rank == 0:
            put(strangers, self.folder)  # type: ignore[arg-type]
            torch.save({"weights": torch.ones(3)}, self.folder / "best.pt")
        dist.barrier()
        before = read_folder(self.folder)
        made[0].run(self.situation.stops[0])
        dist.barrier()
        run = self.resumed("files of others lie in the folder", self.folder, (self.situation.stops[0],))
        dist.barrier()
        after = read_folder(self.folder)
        gone = [name for name, content in before.items() if after.get(name, ...) != content]
        return self.found([run]) | {"strangers": f"{gone[0]} is gone or changed" if gone else FINE}

    def _two(self, made: tuple[Any, Any]) -> dict[str, Any]:
        folder = self.sub("another")
        other = self.made(folder)
        stop = self.situation.stops[0]
        for job, _ in (made, other):
            job.run(stop)
        losses = [list(made[0].run(self.situation.until)), list(other[0].run(self.situation.until))]
        runs = [
            ResumedRun(f"the {of} of two jobs", stop, stop, one, self.weights(model), "", (stop,))
            for of, one, (_, model) in zip(("first", "second"), losses, (made, other), strict=True)
        ]
        return self.found(runs)

    def sub(self, name: str) -> Path:
        folder = self.root / name
        if self.me.rank == 0:
            folder.mkdir()
        dist.barrier()
        return folder

    def _stored(self) -> str:
        """Whether the folder holds two checkpoints."""
        folder = self.sub("one")
        self.made(folder)[0].run(self.situation.every)
        dist.barrier()
        one, all_there = (sum(len(part) for part in read_folder(of).values() if part) for of in (folder, self.folder))
        if 1.5 * one <= all_there <= 2.5 * one:
            return FINE
        many = "more" if all_there > 2 * one else "less"
        return f"the folder holds {all_there:,} bytes, {many} than two checkpoints, of which one has {one:,}"
