"""The steps of an attempt on a rank: some weighed, some timed, in an order that the run is not told.

Weighing costs time, so a step is either weighed or timed; the first one is always weighed. What a rank holds is
looked at after every step.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from course_lib.capstone.jobs.job import CapstoneJob
from course_lib.capstone.memory.intact import changes, fingerprint
from course_lib.capstone.memory.memory_group import OwnGroup, own_group
from course_lib.capstone.memory.memory_inventory import Holdings, begin, holdings, numbers_held
from course_lib.capstone.memory.memory_limit import OverMemory, Weighing
from course_lib.capstone.memory.side_channel_audit import heard
from course_lib.capstone.memory.system_memory import Since, adopted
from course_lib.capstone.running.emulated_compute import StepWork, Tally
from course_lib.capstone.running.replay import Did, in_order
from course_lib.capstone.running.task import Assemble, CapstoneRun, Task, batch_of
from course_lib.capstone.running.warming import warm
from course_lib.capstone.running.whose_code import CodeWatch, SeenCode
from course_lib.cluster.base.rank import Rank
from course_lib.cluster.state.monkeypatch_guard import patched
from course_lib.layouts.mesh import Mesh
from course_lib.meter.clocks.spans import Span
from course_lib.meter.communication.call import Call
from course_lib.meter.communication.recorder import Recorder

__all__ = ["RankRecord", "StepRecord", "take_steps"]

_SAMPLES = 32  # of each parameter


@dataclass(frozen=True)
class StepRecord:
    """One step of one rank. ``peak`` of a weighed one, by the ledger's labels; times are of no use there."""

    loss: float
    time_s: float
    work: StepWork
    sent: tuple[tuple[str, int, int], ...]  # axis, receiver, bytes
    spans: tuple[Span, ...]
    holds: Holdings
    peak: Mapping[str, int] | None = None
    did: tuple[Did, ...] = ()  # of a timed one, in order
    kept_bytes: int = 0  # after a weighed one, what lives in tensors, those that only a graph of autograd knows as well
    group_peak_bytes: int | None = None  # by how much the rank's own group grew at most in it
    group_shared_bytes: int = 0  # of that group, in files in memory and in shared memory
    group_others: int = 0  # processes of that group beside the rank


@dataclass
class RankRecord:
    """What one rank tells."""

    words: str = ""
    mesh: Mesh | None = None
    steps: list[StepRecord] = field(default_factory=list)
    state: dict[str, Tensor] | None = None  # of rank 0
    is_held: Tensor | None = None  # of some numbers of that state, whether this rank has them
    notes: tuple[str, ...] = ()  # what it did beside the meter
    patches: tuple[str, ...] = ()  # functions of PyTorch and Python with others in their place
    changed: tuple[str, ...] = ()  # of the judge's own
    code: tuple[SeenCode, ...] = ()  # what ran, and whose it is


def take_steps(me: Rank, capstone: CapstoneJob, assemble: Assemble, num_weighed: int, num_timed: int) -> RankRecord:
    """Assemble the run, take its steps, and ask for the weights. ``OverMemory`` as soon as the rank holds too much.

    After the first step so many are weighed and so many are timed, in an order that rank 0 draws step by step: there is
    nothing to be read of what comes next.
    """
    warm(me, capstone)
    with adopted(), own_group() as group:
        return _taken(me, capstone, assemble, {True: num_weighed, False: num_timed}, group)


def _taken(me: Rank, capstone: CapstoneJob, assemble: Assemble, left: dict[bool, int], group: OwnGroup) -> RankRecord:
    """The same, where it is seen. ``left``: how many steps are weighed, and how many are not."""
    tally, record, watch = Tally(me.rank), RankRecord(), CodeWatch()
    rules = _Rules(capstone.memory_bytes, capstone.row_s)
    task = Task(me, capstone, tally, *batch_of(capstone))
    with heard() as notes:
        code, before = fingerprint(), patched()
        since = begin()  # last: what the others take is nobody's
        with watch.on():
            run = assemble(me, task)
        gc.collect()  # a model that was cut leaves circles
        judge = _Judge(rules, since, group, watch, (assemble, run))
        record.steps.append(_step(me, task, run, judge, weighed=True))
        while any(left.values()):
            weighed = _drawn(me, left)
            left[weighed] -= 1
            record.steps.append(_step(me, task, run, judge, weighed))
        record.patches = tuple(sorted(name for name, now in patched().items() if before.get(name) != now))
        record.changed = changes(code, fingerprint())
        held = numbers_held()
        with watch.on():
            state = run.whole_state()
    record.code, record.notes = watch.told(), tuple(notes)
    record.state = _checked_state(state) if me.rank == 0 else None
    record.is_held = torch.isin(_sampled(record.state), held)
    mesh = getattr(run, "mesh", None)
    record.mesh = mesh if isinstance(mesh, Mesh) else None
    record.words = str(getattr(run, "words", "") or record.mesh or getattr(assemble, "__name__", "a run"))
    if callable(close := getattr(run, "close", None)):
        close()
    return record


def _drawn(me: Rank, left: Mapping[bool, int]) -> bool:
    """Whether the next step is weighed; of those that are left, each is as likely as the others."""
    told = torch.zeros(1)
    if me.rank == 0:
        told += random.SystemRandom().random() * sum(left.values()) < left[True]
    dist.broadcast(told, src=0)
    return bool(told)


class _Judge(NamedTuple):
    """What a step is looked at with. ``roots``: whatever they can reach by name counts."""

    rules: _Rules
    since: Since
    group: OwnGroup
    watch: CodeWatch
    roots: tuple[Any, ...]


class _Rules(NamedTuple):
    """What the harness goes by, read before a run was handed the job: nothing that it changes there counts."""

    memory_bytes: int
    row_s: float


def _step(me: Rank, task: Task, run: CapstoneRun, judge: _Judge, weighed: bool) -> StepRecord:
    """One step, begun together with the other ranks."""
    rules, work = judge.rules, task.tally.begin()
    dist.barrier()
    judge.group.begin()
    if weighed:
        taken = _weighed(me, task, run, judge)
    else:
        taken = _timed(me, task, run, judge)
        gc.collect()  # the meter keeps what has travelled, and goes in a circle
    group_peak_bytes = judge.group.peak_bytes()
    holds = holdings(judge.since, judge.roots)
    if holds.tensor_bytes > rules.memory_bytes:
        raise OverMemory(me.rank, rules.memory_bytes, {"tensors between two steps": holds.tensor_bytes})
    return StepRecord(
        **vars(taken),
        work=work,
        holds=holds,
        group_peak_bytes=group_peak_bytes,
        group_shared_bytes=judge.group.shared_bytes() or 0,
        group_others=len(judge.group.others()),
    )


@dataclass(frozen=True)
class _Seen:
    """A step, as far as the scales, the clock and the meter saw it."""

    loss: float
    time_s: float = 0.0
    sent: tuple[tuple[str, int, int], ...] = ()
    spans: tuple[Span, ...] = ()
    did: tuple[Did, ...] = ()
    peak: Mapping[str, int] | None = None
    kept_bytes: int = 0


def _weighed(me: Rank, task: Task, run: CapstoneRun, judge: _Judge) -> _Seen:
    """The loss, the most that was held, and what is left. No meter: it keeps what was sent."""
    scales = Weighing(me.rank, judge.rules.memory_bytes, (task.tokens, task.targets))
    try:
        with scales, judge.watch.on():
            loss = float(run.step())
    except BaseException:
        if scales.over is not None:
            raise OverMemory(*scales.over.args) from None
        raise
    if scales.over is not None:  # somebody has caught it
        raise OverMemory(*scales.over.args)
    return _Seen(loss, peak=scales.peak(), kept_bytes=scales.left_bytes)


def _timed(me: Rank, task: Task, run: CapstoneRun, judge: _Judge) -> _Seen:
    with Recorder(me.rank) as recorder, judge.watch.on():
        began_s = time.perf_counter()
        loss = run.step()
        time_s = time.perf_counter() - began_s
    mesh = getattr(run, "mesh", None)
    mesh = mesh if isinstance(mesh, Mesh) and mesh.num_ranks == me.world_size else None
    named = [(call, _axis_of(call, mesh, me)) for call in recorder.calls]
    spans = [span for span in task.tally.timeline.spans if span.start_s >= began_s]
    spans += [span for call, axis in named if (span := call.span(axis))]
    sent = tuple((axis, to, size) for call, axis in named for to, size in call.sent_bytes.items())
    did = in_order(recorder.calls, task.tally.now.calls, judge.rules.row_s)
    return _Seen(float(loss), time_s, sent, tuple(spans), did)


def _axis_of(call: Call, mesh: Mesh | None, me: Rank) -> str:
    """The axis of the run's mesh along which a call goes; without a mesh, how many ranks it joins."""
    if mesh is not None:
        if call.is_message and mesh.size("pp") > 1:
            return "pp"
        for axis in mesh.axes:
            if mesh.size(axis) > 1 and call.group == mesh.group(me.rank, axis):
                return axis
    if call.is_message:
        return "messages"
    return "all ranks" if len(call.group) == me.world_size else f"groups of {len(call.group)}"


def _checked_state(state: Any) -> dict[str, Tensor]:
    """Rank 0's answer, as a dict of tensors; ``ValueError`` for anything else."""
    if not isinstance(state, Mapping) or not all(isinstance(value, Tensor) for value in state.values()):
        raise ValueError(
            f"whole_state() returned a {type(state).__name__} on rank 0. There it must return a dict with the plain "
            "model's names and whole tensors, such as model.state_dict()"
        )
    return {str(name): tensor.detach().clone() for name, tensor in state.items()}


def _sampled(state: Mapping[str, Tensor] | None) -> Tensor:
    """Some numbers of the whole state, as int32 bits, told to all by rank 0."""
    generator, told = torch.Generator().manual_seed(0), [torch.empty(0, dtype=torch.int32)]
    for tensor in (state or {}).values():
        flat = tensor.float().contiguous().view(-1)
        if flat.numel():
            told.append(flat[torch.randint(flat.numel(), (_SAMPLES,), generator=generator)].view(torch.int32))
    both = [torch.cat(told)]
    dist.broadcast_object_list(both, src=0)
    return both[0]
