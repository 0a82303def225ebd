"""Right answers to the exercises of lesson 14 in other styles, and the one that the course would give."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from course_lib.cluster import Rank
from course_lib.mesh import Mesh
from course_lib.parallel.mesh import OnMesh, boxes_of

__all__ = ["ALL", "by_the_course"]


def _mesh_of(task: Any) -> Mesh:
    from course_lib.capstone.references import reference_mesh

    return reference_mesh(task.capstone)


def by_the_course(me: Rank, task: Any) -> Any:
    """Right, and nobody has written it."""
    from course_lib.capstone.on_mesh import assemble_on

    return assemble_on(_mesh_of(task))(me, task)


def without_a_mesh(me: Rank, task: Any) -> Any:
    """An object that has the two methods and nothing else."""
    model = OnMesh(me, _mesh_of(task), task.model())
    optimizer = task.optimizer(model.parameters())
    rows = model.data.deal(task.tokens, task.targets)

    class Bare:
        def step(self) -> float:
            optimizer.zero_grad()
            loss = model.step(*rows)
            optimizer.step()
            return loss.item()

        def whole_state(self) -> dict[str, Tensor] | None:
            from course_lib.capstone import whole_state_of

            return whole_state_of(model)

    return Bare()


def cleared_at_the_end(me: Rank, task: Any) -> Any:
    """Gradients are given back after each update, and parts are added up by an all-reduce."""

    class Late:
        def __init__(self) -> None:
            self.mesh, self.words = _mesh_of(task), "cleared at the end"
            self.model = OnMesh(me, self.mesh, task.model())
            self.optimizer = task.optimizer(self.model.parameters())
            *self.rows, self.weight = self.model.data.deal(task.tokens, task.targets)

        def step(self) -> Tensor:
            loss = self.model.step(*self.rows, self.weight)
            self.optimizer.step()
            self.model.zero_grad()
            return loss

        @torch.no_grad()
        def whole_state(self) -> dict[str, Tensor]:
            whole = {name: torch.zeros(shape) for name, shape in self.model.shapes.items()}
            for box in boxes_of(self.model):
                if box.is_first:
                    there = tuple(
                        slice(at, at + size) for at, size in zip(box.offsets, box.sizes, strict=True)
                    )
                    whole[box.name][there] = box.parameter
            for tensor in whole.values():
                dist.all_reduce(tensor)
            return whole

        def close(self) -> None:
            self.model.close()

    return Late()


def by_functions(me: Rank, task: Any) -> Any:
    """Methods that are functions put on a plain object; the update written as a closure."""
    from types import SimpleNamespace

    from course_lib.capstone import whole_state_of

    mesh = _mesh_of(task)
    model = OnMesh(me, mesh, task.model())
    optimizer = task.optimizer(list(model.parameters()))
    mine = model.data.deal(task.tokens, task.targets)

    def there_and_back() -> Tensor:
        optimizer.zero_grad(set_to_none=True)
        return model.step(*mine)

    return SimpleNamespace(
        mesh=mesh,
        step=lambda: optimizer.step(there_and_back),
        whole_state=lambda: whole_state_of(model),
        close=model.close,
    )


ALL = (without_a_mesh, cleared_at_the_end, by_functions)
