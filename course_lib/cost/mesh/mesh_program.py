"""What a rank of a mesh does in a training step, in order: computing, collectives and messages, begun and waited for.

It follows ``course_lib.parallel.mesh.OnMesh`` from the second step on: the first one tries the stages out, and finds
the order in which sharded units are prefetched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from course_lib.cost.mesh.mesh_parts import HeldParts, StepSizes, UnitCost
from course_lib.cost.model_parallel.tensor_parallel import (
    SplitCollective,
    block_collectives,
    split_transformer_collectives,
)
from course_lib.layouts.row_partition import split_sizes
from course_lib.meter.communication.wire_bytes import traffic
from course_lib.schedules.action import Action
from course_lib.schedules.dependencies import Transfer

__all__ = ["Item", "MeshCall", "Program"]

LOSS_BYTES = 8  # one number of float64
_ENTRANCES = ("attention", "MLP", "head")  # of split regions, by the names of cost.tensor_parallel


class MeshCall(NamedTuple):
    """A collective of the ranks of a group, or a message from the first of two ranks to the second."""

    axis: str  # "tp"; "loss" for the mean of the losses, among all ranks
    what: str
    operation: str  # as the meter names it; "send" for a message
    ranks: tuple[int, ...]
    size_bytes: int  # this rank's input; of a message what travels

    def sent_bytes(self, rank: int, backend: str) -> dict[int, int]:
        """What ``rank`` sends in it, by receiver, with the algorithm of the back end."""
        if self.operation == "send":
            return {self.ranks[1]: self.size_bytes} if rank == self.ranks[0] else {}
        sent = traffic(
            self.operation,
            rank=self.ranks.index(rank),
            num_ranks=len(self.ranks),
            size_bytes=self.size_bytes,
            backend=backend,
        ).sent_bytes
        return {self.ranks[place]: size_bytes for place, size_bytes in sent.items()}


class Item(NamedTuple):
    """``do`` is "start" or "wait" for ``call``, or "forward" or "backward" for computing ``share`` of it."""

    do: str
    call: MeshCall | None = None
    share: float = 0.0


class Program:
    """The items of one rank."""

    def __init__(self, step: StepSizes, rank: int) -> None:
        self.step, self.rank, self.mesh = step, rank, step.mesh
        self.held = held = HeldParts(step, rank)
        self.here, self.stages, self.parameters = held.here, held.stages, held.pieces
        num_rows = split_sizes(step.batch_size, step.num_data_parts)[held.data_place]
        self.num_rows = num_rows
        self.micro_batches = split_sizes(num_rows, step.schedule.num_micro_batches if step.schedule else 1)
        self._group_along: dict[str, tuple[int, ...]] = {}
        self.under_way: tuple[UnitCost, MeshCall] | None = None  # a reduce-scatter
        self.averages: list[MeshCall] = []
        self._tensor_calls_by: dict[tuple[int, int], tuple[SplitCollective, ...]] = {}

    def __iter__(self) -> Iterator[Item]:
        yield from self._pipeline() if self.step.schedule else self._whole()
        if self.mesh.num_ranks > 1:
            ranks = tuple(range(self.mesh.num_ranks))
            yield from _at_once(MeshCall("loss", "mean loss", "all_reduce", ranks, LOSS_BYTES))

    # -- the two outlines -----------------------------------------------------------------------------------------

    def _whole(self) -> Iterator[Item]:
        yield from self._forward(0, self.num_rows, 1.0)
        shards = self.mesh.size("dp_shard") > 1
        yield from self._backward(0, self.num_rows, 1.0, after=self._reduce if shards else None)
        if shards:
            yield from self._finish_reducing()

    def _pipeline(self) -> Iterator[Item]:
        schedule = self.step.schedule
        assert schedule is not None
        row, links = schedule.rows[self.here.get("pp", 0)], schedule.dependencies
        share = 1 / sum(action.kind == "F" for action in row)  # of computing, in each forward and each backward
        awaited = [links.awaits.get(action) for action in row]
        started = [self._message(transfer) for transfer in awaited[:1] if transfer]
        sent: list[MeshCall] = []
        yield from (Item("start", call) for call in started)
        for at, action in enumerate(row):
            if at + 1 < len(row) and (following := awaited[at + 1]):  # a recv starts an action early
                yield Item("start", self._message(following))
            if transfer := awaited[at]:
                yield Item("wait", self._message(transfer))
            yield from self._act(action, share)
            if transfer := links.sends.get(action):
                sent.append(self._message(transfer))
                yield Item("start", sent[-1])
        yield from (Item("wait", call) for call in sent)
        if self.mesh.size("dp_shard") > 1:
            for stage in self.held.my_stages:
                for unit in self.held.units(stage):
                    yield from self._reduce(unit)
                yield from self._finish_reducing()
        yield from self._tied()
        if self.mesh.size("dp_replicate") > 1 and self.mesh.size("dp_shard") == 1:
            held = self.held
            size_bytes = sum(map(held.slice_bytes, held.parameters))
            yield from _at_once(self._call("dp_replicate", "gradients", "all_reduce", size_bytes))

    def _act(self, action: Action, share: float) -> Iterator[Item]:
        num_rows = self.micro_batches[action.micro_batch]
        if action.kind == "F":
            yield from self._forward(action.stage, num_rows, share)
        elif action.kind in "BI":  # what a W computes is counted with its I
            yield from self._backward(action.stage, num_rows, share)
        elif action.stage:  # of stage 0 an I leaves nothing over
            for piece in reversed(self.stages[action.stage]):
                for item in self._tensor_calls(piece, num_rows, is_backward=True):
                    assert item.call is not None
                    if item.call.what in _ENTRANCES and item.call.operation != "all_gather":
                        yield item  # a W passes the entrances of regions once more, with their collectives

    # -- one stage, there and back --------------------------------------------------------------------------------

    def _forward(self, stage: int, num_rows: int, share: float) -> Iterator[Item]:
        pieces, started = self.stages[stage], set[int]()
        units = self.held.units(stage)
        yield from self._gather(units, None, started)
        for piece in pieces:
            yield from self._gather(units, piece, started)
            yield Item("forward", share=share / len(pieces))
            yield from self._tensor_calls(piece, num_rows, is_backward=False)

    def _backward(
        self, stage: int, num_rows: int, share: float, after: Callable[[UnitCost], Iterator[Item]] | None = None
    ) -> Iterator[Item]:
        pieces, started = self.stages[stage], set[int]()
        units = self.held.units(stage)
        units = [*(u for u in units if u.piece is None), *(u for u in reversed(units) if u.piece is not None)]
        yield from self._gather(units, None, started)
        buckets = self._buckets() if self.step.schedule is None else []
        for piece in reversed(pieces):
            yield from self._gather(units, piece, started)
            yield from self._tensor_calls(piece, num_rows, is_backward=True)
            yield Item("backward", share=share / len(pieces))
            done = [unit for unit in units if unit.piece == piece]
            done += [unit for unit in units if unit.piece is None and piece == pieces[0]]
            if after is not None:
                for unit in done:
                    yield from after(unit)
            yield from (Item("start", call) for last, call in buckets if last == piece)
        yield from (Item("wait", call) for _, call in buckets)

    def _tensor_calls(self, piece: int, num_rows: int, *, is_backward: bool) -> Iterator[Item]:
        n = self.mesh.size("tp")
        for one in self._tensor_calls_of(piece, num_rows) if n > 1 else ():
            if one.is_backward == is_backward:
                size_bytes = one.size_bytes // n if one.collective == "all_gather" else one.size_bytes
                yield from _at_once(self._call("tp", one.where, one.collective, size_bytes))

    def _tensor_calls_of(self, piece: int, num_rows: int) -> tuple[SplitCollective, ...]:
        """The collectives of a piece; those of each block are the same."""
        step, last = self.step, len(self.parameters) - 1
        key = (0 if piece == 0 else 2 if piece == last else 1, num_rows)
        if key not in self._tensor_calls_by:
            calls = block_collectives if key[0] == 1 else split_transformer_collectives
            every = calls(
                step.config,
                batch_size=num_rows,
                length=step.tokens,
                sequence_parallel=step.sequence_parallel,
                itemsize=step.itemsize,
            )
            beginnings = (("stem", "positions"), ("attention", "MLP", "norm"), ("head", "loss"))[key[0]]
            found = tuple(call for call in every if call.where.startswith(beginnings))
            self._tensor_calls_by[key] = found
        return self._tensor_calls_by[key]

    # -- data parallelism -----------------------------------------------------------------------------------------

    def _gather(self, units: Sequence[UnitCost], piece: int | None, started: set[int]) -> Iterator[Item]:
        """Where a unit begins with this piece: have it, and start the one that follows."""
        for at, unit in enumerate(units):
            if unit.piece != piece:
                continue
            for one in range(at, min(at + 2, len(units))):
                if one not in started:
                    started.add(one)
                    yield Item("start", self._gathering(units[one]))
            yield Item("wait", self._gathering(unit))

    def _gathering(self, unit: UnitCost) -> MeshCall:
        size_bytes = unit.numel * self.step.itemsize
        return self._call("dp_shard", f"weights of {unit.name}", "all_gather", size_bytes)

    def _reduce(self, unit: UnitCost) -> Iterator[Item]:
        """Gradients of a unit set out; those before them have come, and go on to the replicas."""
        yield from self._land()
        size_bytes = unit.numel * self.mesh.size("dp_shard") * self.step.itemsize
        operation = "all_to_all" if self.step.backend == "gloo" else "reduce_scatter"
        call = self._call("dp_shard", f"gradients of {unit.name}", operation, size_bytes)
        self.under_way = unit, call
        yield Item("start", call)

    def _land(self) -> Iterator[Item]:
        if self.under_way is None:
            return
        (unit, call), self.under_way = self.under_way, None
        yield Item("wait", call)
        if self.mesh.size("dp_replicate") > 1:
            size_bytes = unit.numel * self.step.itemsize
            call = self._call("dp_replicate", f"rows of {unit.name}", "all_reduce", size_bytes)
            self.averages.append(call)
            yield Item("start", call)

    def _finish_reducing(self) -> Iterator[Item]:
        yield from self._land()
        yield from (Item("wait", call) for call in self.averages)
        self.averages = []

    def _buckets(self) -> list[tuple[int, MeshCall]]:
        """DDP's buckets, each with the piece whose backward fills it."""
        if self.mesh.size("dp_replicate") == 1 or self.mesh.size("dp_shard") > 1:
            return []
        calls = []
        for piece, size_bytes in self.held.buckets():
            call = self._call("dp_replicate", "a bucket of gradients", "all_reduce", size_bytes)
            calls.append((piece, call))
        return calls

    def _tied(self) -> Iterator[Item]:
        """A tied matrix on two ranks of the pipeline: each sends the other its gradient."""
        schedule, last = self.step.schedule, len(self.parameters) - 1
        if schedule is None or not self.step.config.tied:
            return
        stage_of = {piece: stage for stage, pieces in enumerate(self.stages) for piece in pieces}
        ends = [schedule.rank_of_stage[stage_of[piece]] for piece in (0, last)]
        if ends[0] == ends[1] or self.here["pp"] not in ends:
            return
        other = ends[self.here["pp"] == ends[0]]
        size_bytes = self.held.rows_bytes(self.parameters[0][0])
        peers = (self.rank, self.mesh.rank_at(**self.here | {"pp": other}))
        both = [MeshCall("pp", "tied", "send", ends, size_bytes) for ends in (peers, peers[::-1])]
        yield from (Item("start", call) for call in both)
        yield from (Item("wait", call) for call in both)

    def _message(self, transfer: Transfer) -> MeshCall:
        kind, i, from_stage, _, sender, receiver = transfer
        step = self.step
        length = step.tokens // (self.mesh.size("tp") if step.sequence_parallel else 1)
        size_bytes = self.micro_batches[i] * length * step.config.width * step.itemsize
        ends = tuple(self.mesh.rank_at(**self.here | {"pp": place}) for place in (sender, receiver))
        what = "activations" if kind == "F" else "gradients"
        return MeshCall("pp", f"{what} of stage {from_stage}, micro-batch {i}", "send", ends, size_bytes)

    def _call(self, axis: str, what: str, operation: str, size_bytes: int) -> MeshCall:
        if axis not in self._group_along:
            self._group_along[axis] = self.mesh.group(self.rank, axis)
        return MeshCall(axis, what, operation, self._group_along[axis], size_bytes)


def _at_once(call: MeshCall) -> Iterator[Item]:
    yield Item("start", call)
    yield Item("wait", call)
