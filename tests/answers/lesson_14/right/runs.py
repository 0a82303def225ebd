"""Right runs of the capstone's jobs, in several styles, and one by the course itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from course_lib.cluster.base.rank import Rank
from course_lib.layouts.mesh import Mesh
from course_lib.parallel.mesh import OnMesh, boxes_of


def _mesh_of(task: Any) -> Mesh:
    from course_lib.capstone.attempts.references import reference_mesh

    return reference_mesh(task.capstone)


def by_the_course(me: Rank, task: Any) -> Any:
    """Right, and nobody has written it."""
    from course_lib.capstone.running.on_mesh import assemble_on

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
                    there = tuple(slice(at, at + size) for at, size in zip(box.offsets, box.sizes, strict=True))
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


def by_a_generator(me: Rank, task: Any) -> Any:
    """The training is one loop, and a step is its next turn; states are all-gathered as a list of dicts."""

    class Loop:
        mesh = _mesh_of(task)

        def __init__(self) -> None:
            self.model = OnMesh(me, self.mesh, task.model())
            self.losses = self.train()

        def train(self) -> Iterator[float]:
            optimizer = task.optimizer(self.model.parameters())
            rows = self.model.data.deal(task.tokens, task.targets)
            while True:
                loss = self.model.step(*rows).item()
                optimizer.step()
                self.model.zero_grad()
                yield loss

        def step(self) -> float:
            return next(self.losses)

        def whole_state(self) -> dict[str, Tensor] | None:
            from course_lib.capstone import whole_state_of

            state = whole_state_of(self.model)
            return state if me.rank == 0 else {}

    return Loop()


def a_model_of_its_own(me: Rank, task: Any) -> Any:
    """A subclass that trains itself; options are written out, and AdamW's settings copied from the job's."""
    from course_lib.capstone import whole_state_of
    from course_lib.capstone.running.task import ADAMW
    from course_lib.schedules import one_f_one_b

    mesh = _mesh_of(task)
    stages = mesh.size("pp")
    options: dict[str, Any] = {"schedule": one_f_one_b(stages, 2 * stages)} if stages > 1 else {}
    if mesh.size("tp") > 1:
        options["sequence_parallel"] = True

    class Trained(OnMesh):
        def take(self) -> Tensor:
            self.zero_grad()
            loss = super().step(*rows)
            adamw.step()
            return loss

    model = Trained(me, mesh, task.model(), **options)
    rows = model.data.deal(task.tokens, task.targets)
    adamw = torch.optim.AdamW(model.parameters(), **ADAMW)

    class Run:
        step = staticmethod(model.take)
        close = staticmethod(model.close)

        @staticmethod
        def whole_state() -> dict[str, Tensor] | None:
            return whole_state_of(model)

    Run.mesh = mesh  # type: ignore[attr-defined]
    return Run()


def with_a_history(me: Rank, task: Any) -> Any:
    """Says how it goes, keeps all losses, and clears to zeros."""
    from course_lib.capstone import whole_state_of

    class Told:
        def __init__(self) -> None:
            self.mesh, self.losses = _mesh_of(task), list[float]()
            self.model = OnMesh(me, self.mesh, task.model())
            self.rows = self.model.data.deal(task.tokens, task.targets)
            self.optimizer = task.optimizer(self.model.parameters())

        def step(self) -> float:
            self.optimizer.zero_grad(set_to_none=False)
            self.losses.append(float(self.model.step(*self.rows)))
            self.optimizer.step()
            if me.rank == 0:
                print(f"step {len(self.losses)}: {self.losses[-1]:.3f}")
            return self.losses[-1]

        def whole_state(self) -> dict[str, Tensor] | None:
            return whole_state_of(self.model)

    return Told()


def states_by_messages(me: Rank, task: Any) -> Any:
    """Each rank sends its pieces to rank 0, one after the other."""

    class Sent:
        def __init__(self) -> None:
            self.mesh = _mesh_of(task)
            self.model = OnMesh(me, self.mesh, task.model())
            self.optimizer = task.optimizer(self.model.parameters())

        def step(self) -> Tensor:
            for parameter in self.model.parameters():
                parameter.grad = None
            loss = self.model.step(*self.model.data.deal(task.tokens, task.targets))
            self.optimizer.step()
            return loss

        def whole_state(self) -> dict[str, Tensor] | None:
            mine = [(b.name, b.offsets, b.parameter.detach().clone()) for b in boxes_of(self.model) if b.is_first]
            if me.rank:
                dist.send_object_list([mine], 0)
                return None
            for rank in range(1, me.world_size):
                received: list[Any] = [None]
                dist.recv_object_list(received, rank)
                mine += received[0]
            whole = {name: torch.zeros(shape) for name, shape in self.model.shapes.items()}
            for name, offsets, piece in mine:
                part = whole[name]
                for dim, (at, size) in enumerate(zip(offsets, piece.shape, strict=True)):
                    part = part.narrow(dim, at, size)
                part.copy_(piece)
            return whole

    return Sent()


def bound(me: Rank, task: Any) -> Any:
    """A class of a module that gets its mesh, and tells words in place of it."""
    return _With(_mesh_of(task), me, task)


class _With:
    def __init__(self, mesh: Mesh, me: Rank, task: Any) -> None:
        self.words = f"bound to {mesh}"
        self.model = OnMesh(me, mesh, task.model())
        self.inputs, self.targets, self.weight = self.model.data.deal(task.tokens, task.targets)
        self.update = task.optimizer(self.model.parameters()).step

    def step(self) -> Tensor:
        self.model.zero_grad()
        loss = self.model.step(self.inputs, self.targets, weight=self.weight)
        self.update()
        return loss.detach()

    def whole_state(self) -> dict[str, Tensor] | None:
        from course_lib.capstone import whole_state_of

        return whole_state_of(self.model)


ALL = (
    without_a_mesh,
    cleared_at_the_end,
    by_functions,
    by_a_generator,
    a_model_of_its_own,
    with_a_history,
    states_by_messages,
    bound,
)
