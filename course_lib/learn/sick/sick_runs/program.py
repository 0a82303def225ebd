"""What a rank does in a step: read, forward, backward, average gradients, update. Computing is paced.

Written for any mesh of ``pp``, ``dp_replicate`` and ``tp``: stages run 1F1B, the ranks of a ``tp`` group add up each
layer's output forward and backward, and replicas average their gradients in buckets, which are sent while the
backward goes on.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from course_lib.cluster.base.point_to_point import recv, send, start
from course_lib.cluster.base.rank import Rank
from course_lib.cluster.links.emulated_compute import pace
from course_lib.layouts.mesh import Mesh
from course_lib.learn.sick.sick_runs.job import SickJob
from course_lib.learn.sick.sick_runs.reads import Reads
from course_lib.learn.sick.sick_runs.settings import Settings
from course_lib.meter.clocks.timeline import Span, Timeline
from course_lib.meter.communication.call import Call
from course_lib.meter.communication.recorder import Recorder
from course_lib.parallel.mesh.groups import MeshGroups
from course_lib.schedules import one_f_one_b

__all__ = ["SickStepRecord", "train"]

_INPUT_SHARE = 1 / 16  # of what a layer keeps, its input


@dataclass(frozen=True)
class SickStepRecord:
    """A step as one rank saw it."""

    start_s: float
    end_s: float
    spans: tuple[Span, ...]  # computing, and reading
    calls: tuple[Call, ...]
    peak_bytes: int


def train(me: Rank, job: SickJob, settings: Settings, num_steps: int) -> list[SickStepRecord]:
    """``num_steps`` steps, after one that is not kept. The ranks begin each of them together."""
    records = []
    groups = MeshGroups(me, Mesh.parse(settings.mesh))
    dist.barrier()  # the first one takes long: batches would be read meanwhile
    with Reads(settings.readers, job.read_s) as reads:
        for _ in range(num_steps + 1):
            step = _Step(me, job, settings, groups)
            dist.barrier()
            with Recorder(me.rank) as recorder:
                start_s = time.perf_counter()
                step.run(reads)
                end_s = time.perf_counter()
            records.append(SickStepRecord(start_s, end_s, step.timeline.spans, recorder.calls, step.memory.peak_bytes))
    groups.close()
    return records[1:]


class _Memory:
    """Tensors that a rank keeps, by name, and the most bytes that they were at a time."""

    def __init__(self) -> None:
        self._kept: dict[Any, torch.Tensor] = {}
        self.peak_bytes = 0

    def keep(self, name: Any, size_bytes: float) -> None:
        self._kept[name] = torch.empty(int(size_bytes), dtype=torch.uint8)
        self.peak_bytes = max(self.peak_bytes, sum(tensor.nbytes for tensor in self._kept.values()))

    def drop(self, name: Any) -> None:
        del self._kept[name]


class _Step:
    """One step of one rank: ``run`` is all of it, the other methods are its parts."""

    def __init__(self, me: Rank, job: SickJob, settings: Settings, groups: MeshGroups) -> None:
        self.me, self.job, self.settings, self.groups = me, job, settings, groups
        self.timeline, self.memory = Timeline(me.rank), _Memory()
        mesh = groups.mesh
        self.num_stages, self.tp = mesh.size("pp"), mesh.size("tp")
        self.num_replicas = mesh.size("dp_replicate")
        self.stage = groups.coordinates.get("pp", 0)
        self.layers = range(job.num_layers // self.num_stages)  # its own
        self.rows = job.num_rows / self.num_replicas / settings.micro_batches  # of a micro-batch
        self.message = torch.zeros(int(self.rows * job.row_bytes) // 4)
        self.sent: list[Any] = []  # messages on their way
        self.averaging: list[Any] = []  # all-reduces on their way

    def run(self, reads: Reads) -> None:
        """All of the step; it is over when the weights are new."""
        self.memory.keep("states", self.job.state_bytes * len(self.layers) / self.tp)
        with self.timeline.span("data", kind="data"):
            reads.next()
        for action in one_f_one_b(self.num_stages, self.settings.micro_batches).rows[self.stage]:
            if action.kind == "F":
                self.forward(action.micro_batch)
            else:
                self.backward(action.micro_batch)
        for work in self.averaging:
            work.wait()
        with self.timeline.span("step"):
            pace(self.me, self.job.update_s)
        for wait in self.sent:
            wait()

    def forward(self, micro_batch: int) -> None:
        """Forward of a micro-batch through this stage: from the one before, to the one after."""
        self.receive(-1)
        with self.computing("forward"):
            for layer in self.layers:
                self.layer("forward", self.job.layer_s(self.rows, self.tp))
                share = 1.0 if self.settings.recompute == "none" else _INPUT_SHARE
                self.memory.keep((micro_batch, layer), share * self.kept_bytes)
        self.send(+1)

    def backward(self, micro_batch: int) -> None:
        """Backward of a micro-batch through this stage, the other way. The last one completes the gradients."""
        self.receive(+1)
        bucket = max(1, len(self.layers) // self.settings.buckets)  # layers
        is_last = micro_batch == self.settings.micro_batches - 1
        with self.computing("backward"):
            for done, layer in enumerate(reversed(self.layers), 1):
                self.backward_of(micro_batch, layer)
                if is_last and done % bucket == 0 and done < len(self.layers):
                    self.average(bucket)
        if is_last:  # the last one when the box is closed: handing it over is no computing
            self.average(bucket)
        self.send(-1)

    def backward_of(self, micro_batch: int, layer: int) -> None:
        """Backward of a layer, behind its forward once more where that is recomputed; then nothing is kept."""
        forward_s = self.job.layer_s(self.rows, self.tp)
        if self.settings.recompute == "none":
            self.layer("backward", 2 * forward_s)
        else:
            self.memory.keep("again", self.kept_bytes)
            self.layer("backward", 3 * forward_s, num_sums=2)
            self.memory.drop("again")
        self.memory.drop((micro_batch, layer))

    @property
    def kept_bytes(self) -> float:
        """What a layer keeps of a micro-batch on this rank."""
        return self.rows * self.job.kept_bytes / self.tp

    @contextmanager
    def computing(self, name: str) -> Iterator[None]:
        """One span for all layers; where ``tp`` talks between layers, each has its own."""
        if self.tp > 1:
            yield
        else:
            with self.timeline.span(name):
                yield

    def layer(self, name: str, time_s: float, num_sums: int = 1) -> None:
        """Compute one layer, and add up what the ranks of its ``tp`` group have."""
        if self.tp == 1:
            pace(self.me, time_s)
            return
        with self.timeline.span(name):
            pace(self.me, time_s)
        for _ in range(num_sums):
            dist.all_reduce(self.message, group=self.groups.group("tp"))

    def average(self, num_layers: int) -> None:
        """Begin to average the gradients of so many layers over the replicas."""
        if self.num_replicas > 1:
            gradients = torch.zeros(int(num_layers * self.job.gradient_bytes / self.tp) // 4)
            group = self.groups.group("dp_replicate")
            self.averaging.append(dist.all_reduce(gradients, group=group, async_op=True))

    def neighbour(self, distance: int) -> int | None:
        """The rank of the stage before (-1) or after (+1) this one; None where there is none."""
        stage = self.stage + distance
        if not 0 <= stage < self.num_stages:
            return None
        return self.groups.mesh.rank_at(**self.groups.coordinates | {"pp": stage})

    def receive(self, distance: int) -> None:
        """Wait for a message of the neighbour, where there is one."""
        peer = self.neighbour(distance)
        if peer is not None:
            start([recv(torch.empty_like(self.message), peer)])()

    def send(self, distance: int) -> None:
        """Begin to send to the neighbour, where there is one; the end of the step waits for it."""
        peer = self.neighbour(distance)
        if peer is not None:
            self.sent.append(start([send(self.message.clone(), peer)]))
