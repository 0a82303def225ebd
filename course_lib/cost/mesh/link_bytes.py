"""What a training step on a mesh sends: along each axis, from each rank to each, within nodes and between them.

A step on a mesh is the strategies of its axes, each with the sizes that the others leave::

    tp             collectives of B T D numbers in every layer; B are the sequences that this rank is given
    pp             B T D numbers to the next stage, and as many back
    dp_shard       a rank keeps K numbers of its stage's slice. It sends them to each other rank twice for every
                   micro-batch (all-gathers, there and back), and as many gradients to each, once a step
    dp_replicate   one all-reduce of all gradients that a rank has: of its slice, or of its rows of that

Which of them pass between nodes is decided by the order of the axes. The bytes are those that the meter counts on gloo.
(How long a step takes: ``mesh_time.py``.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from course_lib.base.checked import checked
from course_lib.base.checks import at_least, divides, known
from course_lib.cost.mesh.mesh_program import Item, MeshCall, Program
from course_lib.cost.single_device.architectures import TransformerSizes
from course_lib.layouts.mesh import COMBINED_AXES, DATA_AXES, Mesh
from course_lib.schedules import one_f_one_b
from course_lib.schedules.table import Schedule

__all__ = ["LinkBytes", "MeshStep", "bytes_by_link"]

_BACKENDS = ("gloo", "nccl")


class LinkBytes(NamedTuple):
    """What all ranks together send, by kind of link."""

    within_bytes: int  # to ranks of the same node
    between_bytes: int  # to ranks of other nodes


@checked
@dataclass(frozen=True, kw_only=True)
class MeshStep:
    """A training step of a transformer on a mesh, as ``OnMesh`` takes it: forward, backward, gradients averaged.

    ``batch_size``: sequences of the whole batch, on all ranks together; ``length``: their tokens, by default the
    context. ``schedule`` as in ``OnMesh``: by default 1F1B with twice as many micro-batches as stages.
    ``ValueError`` for an axis that is not combined there, heads that ``tp`` does not divide, fewer sequences than
    there are parts of the batch with their micro-batches, and a schedule of other ranks than ``pp``.
    """

    config: TransformerSizes
    mesh: Mesh
    batch_size: int
    length: int | None = None
    itemsize: int = 4
    schedule: Schedule | None = None
    sequence_parallel: bool = False
    backend: str = "gloo"

    def __post_init__(self) -> None:
        self.mesh.refuse_others(COMBINED_AXES, "counted")
        known("backend", self.backend, _BACKENDS)
        at_least(1, length=self.tokens, itemsize=self.itemsize)
        divides(self.config.num_heads, "heads", tp=self.mesh.size("tp"))
        divides(self.config.kv_heads, "key/value heads", tp=self.mesh.size("tp"))
        if self.sequence_parallel:
            divides(self.tokens, "tokens of a sequence", tp=self.mesh.size("tp"))
        num_stages = self.mesh.size("pp")
        if self.schedule is None and num_stages > 1:
            object.__setattr__(self, "schedule", one_f_one_b(num_stages, 2 * num_stages))
        if self.schedule is not None and self.schedule.num_ranks != num_stages:
            raise ValueError(
                f"the schedule {self.schedule.name!r} has {self.schedule.num_ranks} ranks, and this mesh "
                f"pp={num_stages}; each pipeline of the mesh runs the schedule, so the two are the same"
            )
        num_micro_batches = self.schedule.num_micro_batches if self.schedule else 1
        at_least(self.num_data_parts * num_micro_batches, batch_size=self.batch_size)

    @property
    def tokens(self) -> int:
        """Tokens of a sequence."""
        return self.config.context_length if self.length is None else self.length

    @property
    def num_data_parts(self) -> int:
        """How many parts the batch is dealt out in."""
        return self.mesh.size(*DATA_AXES)

    def items(self, rank: int) -> list[Item]:
        """What a rank does in the step, in order."""
        return list(Program(self, rank))

    def calls(self, rank: int) -> list[MeshCall]:
        """The collectives and messages in which a rank takes part, in the order in which it starts them."""
        return [item.call for item in Program(self, rank) if item.do == "start" and item.call]

    def sent_bytes(self, rank: int = 0) -> dict[str, int]:
        """What a rank sends along each axis of the mesh, and for the mean of the losses ("loss": among all ranks)."""
        sent = Counter(dict.fromkeys([*self.mesh.axes, "loss"], 0))
        for call, count in Counter(self.calls(rank)).items():
            sent[call.axis] += count * sum(call.sent_bytes(rank, self.backend).values())
        return dict(sent)

    def matrix(self, *axes: str) -> list[list[int]]:
        """``matrix()[i][j]``: bytes from rank i to rank j, as the meter's; with ``axes`` along these alone."""
        for axis in axes:
            known("axis", axis, (*self.mesh.axes, "loss"))
        n = self.mesh.num_ranks
        table = [[0] * n for _ in range(n)]
        for rank in range(n):
            for call, count in Counter(self.calls(rank)).items():
                if not axes or call.axis in axes:
                    for receiver, size_bytes in call.sent_bytes(rank, self.backend).items():
                        table[rank][receiver] += count * size_bytes
        return table

    def by_link(self, *axes: str) -> LinkBytes:
        """What all ranks send within nodes and between them; with ``axes`` along these alone."""
        return bytes_by_link(self.mesh, self.matrix(*axes))


@checked
def bytes_by_link(mesh: Mesh, matrix: Sequence[Sequence[int]]) -> LinkBytes:
    """Sum up a matrix of bytes from rank to rank, such as the meter's ``run.communication.matrix()``.

    ``ValueError`` for a matrix of another number of ranks than the mesh.
    """
    n = mesh.num_ranks
    if len(matrix) != n or any(len(row) != n for row in matrix):
        raise ValueError(
            f"the matrix has {len(matrix)} rows, and {mesh} has {n} ranks: give the bytes from each rank to each, "
            f"{n} x {n}"
        )
    within_bytes = between_bytes = 0
    for sender, row in enumerate(matrix):
        for receiver, size_bytes in enumerate(row):
            if mesh.node_of(sender) == mesh.node_of(receiver):
                within_bytes += size_bytes
            else:
                between_bytes += size_bytes
    return LinkBytes(within_bytes, between_bytes)
