"""Usual wrong answers to the exercises of lesson 14: right but for one thing, on a mesh that fits."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from course_lib.cluster.base.rank import Rank
from course_lib.layouts.mesh import DATA_AXES, Mesh
from course_lib.parallel.mesh import OnMesh, boxes_of

__all__ = ["slipped"]


def slipped(slip: str, mesh: str = "") -> Any:
    """An ``assemble`` that does one thing wrong; ``mesh`` as text, by default one that is good for the job."""
    return partial(_assemble, slip, mesh)


def _assemble(slip: str, mesh: str, me: Rank, task: Any) -> Any:
    from course_lib.capstone.attempts.references import reference_mesh

    if slip == "nothing":
        return None
    return _Slipped(slip, me, task, Mesh.parse(mesh) if mesh else reference_mesh(task.capstone))


class _Slipped:
    def __init__(self, slip: str, me: Rank, task: Any, mesh: Mesh) -> None:
        self.slip, self.me, self.mesh = slip, me, mesh
        self.model = OnMesh(me, mesh, task.model())
        self.optimizer = self._optimizer(task)
        tokens, targets = task.tokens, task.targets
        if slip == "part":
            rows = len(tokens) // 2
            tokens, targets = tokens[:rows], targets[:rows]
        self.mine = self.model.data.deal(tokens, targets)
        aside = self.model.parameters() if slip == "hidden" else []
        self.aside = [parameter.detach().numpy().copy() for parameter in aside]

    def _optimizer(self, task: Any) -> torch.optim.Optimizer:
        if self.slip == "usual AdamW":
            return torch.optim.AdamW(self.model.parameters())
        if self.slip == "SGD":
            return torch.optim.SGD(self.model.parameters(), lr=1e-2)
        optimizer: torch.optim.Optimizer = task.optimizer(self.model.parameters())
        return optimizer

    def step(self) -> Any:
        if self.slip != "kept":
            self.optimizer.zero_grad()
        if self.slip == "twice":
            self.model.step(*self.mine)
            self.optimizer.zero_grad()
        loss = self.model.step(*self.mine)
        if self.slip == "summed":
            for parameter in self.model.parameters():
                if parameter.grad is not None:
                    parameter.grad.mul_(max(2, self.mesh.size(*DATA_AXES)))
        if self.slip != "no update":
            self.optimizer.step()
        if self.slip == "no loss":
            return None
        return loss * self.me.world_size if self.slip == "loss of all" else loss

    def whole_state(self) -> dict[str, Tensor] | None:
        from course_lib.capstone import whole_state_of

        if self.slip == "own part":
            return {box.name: box.parameter.detach() for box in boxes_of(self.model)}
        if self.slip == "no state":
            return None
        return whole_state_of(self.model)

    def close(self) -> None:
        self.model.close()
