"""The course's parts put together on a mesh, as a run that ``attempt`` takes."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

from course_lib.base.checked import checked
from course_lib.capstone.running.task import Assemble, Task
from course_lib.cluster.base.rank import Rank
from course_lib.layouts.mesh import Mesh
from course_lib.parallel.mesh.boxes import boxes_of
from course_lib.parallel.mesh.on_mesh import OnMesh

__all__ = ["RunOnMesh", "assemble_on", "whole_state_of"]


class RunOnMesh:
    """A transformer on a mesh by ``OnMesh``, with AdamW."""

    def __init__(self, me: Rank, task: Task, mesh: Mesh) -> None:
        self.mesh = mesh
        self.model = OnMesh(me, mesh, task.model())
        self.optimizer = task.optimizer(self.model.parameters())
        self.mine = self.model.data.deal(task.tokens, task.targets)

    def step(self) -> Tensor:
        """One training step; the batch's mean loss."""
        self.optimizer.zero_grad()
        loss = self.model.step(*self.mine)
        self.optimizer.step()
        return loss

    def whole_state(self) -> dict[str, Tensor] | None:
        """All weights, on rank 0."""
        return whole_state_of(self.model)

    def close(self) -> None:
        """End the groups of the mesh."""
        self.model.close()


@checked
def assemble_on(mesh: Mesh) -> Assemble:
    """What ``attempt`` takes, for a mesh: everything from the course's parts."""

    def assemble(me: Rank, task: Task) -> RunOnMesh:
        return RunOnMesh(me, task, mesh)

    assemble.__name__ = str(mesh)
    return assemble


def whole_state_of(model: OnMesh) -> dict[str, Tensor] | None:
    """The whole weights of a model on a mesh, by the plain model's names, on rank 0; every rank calls it.

    Each rank sends the boxes that it holds first; a tied parameter comes under each of its names.
    """
    mine = [(box.name, box.offsets, box.parameter.detach()) for box in boxes_of(model) if box.is_first]
    found: list[list[tuple[str, tuple[int, ...], Tensor]] | None] | None = None
    if model.me.rank == 0:
        found = [None] * model.me.world_size
    dist.gather_object(mine, found)
    if found is None:
        return None
    whole = {name: torch.zeros(shape) for name, shape in model.shapes.items()}
    for boxes in found:
        for name, offsets, box in boxes or ():
            there = tuple(slice(at, at + size) for at, size in zip(offsets, box.shape, strict=True))
            whole[name][there] = box
    return whole
