"""Wrong answers to the exercises of lesson 14, as a tired learner or a cheat would hand them in; each at every level.

Each is right but for what its name says. ``FITS`` are on the mesh of the reference.
"""

from __future__ import annotations

import time
from typing import Any

import torch
import torch.distributed as dist

from course_lib.capstone.attempts.references import reference_mesh
from course_lib.capstone.running.reference_run import on_one_device
from course_lib.cluster import Rank
from course_lib.layouts.mesh import DATA_AXES, Mesh
from course_lib.models import next_token_loss
from course_lib.parallel.mesh import OnMesh
from course_lib.parallel.mesh import on_mesh as on_mesh_module


class Right:
    """The training as the course would put it together, in parts that can be changed."""

    def __init__(self, me: Rank, task: Any) -> None:
        self.me, self.task, self.mesh = me, task, self.mesh_of(task)
        self.model = OnMesh(me, self.mesh, self.whole(task))
        self.optimizer = task.optimizer(self.trained())
        self.mine = self.model.data.deal(*self.batch(task))
        self.prepare()

    def mesh_of(self, task: Any) -> Mesh:
        return reference_mesh(task.capstone)

    def whole(self, task: Any) -> Any:
        return task.model()

    def trained(self) -> list[Any]:
        return self.model.parameters()

    def batch(self, task: Any) -> tuple[torch.Tensor, torch.Tensor]:
        return task.tokens, task.targets

    def prepare(self) -> None:
        """For what is kept aside."""

    def step(self) -> Any:
        self.optimizer.zero_grad()
        loss = self.model.step(*self.mine)
        self.gradients()
        self.optimizer.step()
        return loss

    def gradients(self) -> None:
        """For what is done to them."""

    def whole_state(self) -> Any:
        from course_lib.capstone import whole_state_of

        return whole_state_of(self.model)

    def close(self) -> None:
        self.model.close()


# -- as a tired learner ------------------------------------------------------------------------------------------------


class ForgetsToAverage(Right):
    """Each data rank goes by its own gradients; where there is none, the first rank's are lost."""

    def gradients(self) -> None:
        for parameter in self.model.parameters():
            if parameter.grad is not None and self.me.rank == 0:
                parameter.grad.mul_(0.5)


class AveragesTwice(Right):
    def gradients(self) -> None:
        for parameter in self.model.parameters():
            if parameter.grad is not None:
                parameter.grad.div_(max(2, self.mesh.size(*DATA_AXES)))


class WithoutOneAxis(Right):
    """No gradients go along the data axis of a pipeline, nor along that of replicas."""

    def step(self) -> Any:
        plain, on_mesh_module.average_gradients = on_mesh_module.average_gradients, lambda *_, **__: None
        try:
            return super().step()
        finally:
            on_mesh_module.average_gradients = plain

    def gradients(self) -> None:
        if self.mesh.size("dp_replicate") == 1 or self.mesh.size("pp") == 1:  # another axis, then
            for parameter in self.model.parameters()[:1]:
                parameter.grad = None


class WrongRows(Right):
    """Every part of the batch is the first one."""

    def batch(self, task: Any) -> tuple[torch.Tensor, torch.Tensor]:
        half = len(task.tokens) // 2
        return task.tokens[:half].repeat(2, 1), task.targets[:half].repeat(2, 1)


class TargetsNotShifted(Right):
    def batch(self, task: Any) -> tuple[torch.Tensor, torch.Tensor]:
        return task.tokens, task.tokens


class HalfDealt(Right):
    """Some ranks deal half of the batch, and others all of it."""

    def batch(self, task: Any) -> tuple[torch.Tensor, torch.Tensor]:
        rows = len(task.tokens) // (1 + self.me.rank % 2)
        return task.tokens[:rows], task.targets[:rows]


class FrozenStem(Right):
    """What tells words apart is never trained."""

    def trained(self) -> list[Any]:
        return self.model.parameters()[1:] or self.model.parameters()


class PoorMesh(Right):
    """Fits, has the right weights, and is slow: the course's mesh with its axes turned round, or another."""

    def mesh_of(self, task: Any) -> Mesh:
        from course_lib.capstone.jobs.expected import expected, room_needed

        job = task.capstone
        fitting = [m for m, size in room_needed(job.job, job.ranks).items() if size <= 0.97 * job.memory_bytes]
        slow = [m for m in fitting if expected(job.job, m).real_s > 1.15 * job.budget_s]
        return min(slow, key=lambda mesh: expected(job.job, mesh).real_s)


# -- as a cheat --------------------------------------------------------------------------------------------------------


class OneRank(Right):
    """Rank 0 trains the whole model, and tells the others."""

    def __init__(self, me: Rank, task: Any) -> None:
        self.me, self.task, self.mesh = me, task, None
        self.whole_model = task.model() if me.rank == 0 else None
        if self.whole_model is not None:
            self.optimizer = task.optimizer(self.whole_model.parameters())

    def step(self) -> Any:
        loss = torch.zeros(())
        if self.whole_model is not None:
            self.optimizer.zero_grad()
            loss = next_token_loss(self.whole_model(self.task.tokens), self.task.targets)
            loss.backward()
            self.optimizer.step()
            loss = loss.detach().clone()
        dist.broadcast(loss, 0)
        return loss

    def whole_state(self) -> Any:
        return self.whole_model.state_dict() if self.whole_model is not None else None

    def close(self) -> None:
        pass


class OraclesAnswer(Right):
    """Nothing is trained; what comes back was worked out beside, by the course's own oracle."""

    number = 0

    def step(self) -> Any:
        self.number += 1
        return on_one_device(self.task.capstone, self.number).losses[-1]

    def whole_state(self) -> Any:
        after = on_one_device(self.task.capstone, self.number).after
        return {name: tensor.float() for name, tensor in after.items()} if self.me.rank == 0 else None


class OraclesLosses(Right):
    """Trains nothing in its last step, and tells the loss that one device would have."""

    number = 0

    def step(self) -> Any:
        self.number += 1
        if self.number < 3:
            return super().step()
        return on_one_device(self.task.capstone, self.number).losses[-1]


class FewerSteps(Right):
    number, last = 0, 0.0

    def step(self) -> Any:
        self.number += 1
        if self.number % 2:
            self.last = super().step()
        return self.last


class HiddenStates(Right):
    """Between steps the optimizer's states lie where no ledger looks."""

    def step(self) -> Any:
        for state in self.optimizer.state.values():
            state["exp_avg"] = torch.from_numpy(state["exp_avg"].pop().copy())
        loss = super().step()
        for state in self.optimizer.state.values():
            state["exp_avg"] = [state["exp_avg"].numpy().copy()]
        return loss


class SleepsLess(Right):
    def step(self) -> Any:
        plain = time.sleep
        time.sleep = lambda _: None
        try:
            return super().step()
        finally:
            time.sleep = plain


class SkipsBlocks(Right):
    """The last block hands on what it gets, and keeps its weights."""

    def whole(self, task: Any) -> Any:
        model = task.model()
        last = model.blocks[-1]
        last.forward = lambda x: x + 0 * sum(p.sum() for p in last.parameters())
        return model


class Bfloat16(Right):
    """Gradients cut to 16 bits."""

    def gradients(self) -> None:
        for parameter in self.model.parameters():
            if parameter.grad is not None:
                parameter.grad.copy_(parameter.grad.bfloat16().float())


class OtherRules(Right):
    """Gives itself room in the job that it was handed, and keeps everything whole."""

    def mesh_of(self, task: Any) -> Mesh:
        object.__setattr__(task.capstone, "memory_bytes", 10**12)
        return Mesh.of(dp_replicate=task.capstone.ranks)


class OnTheQuiet(Right):
    """Computes everything twice and says nothing; right, and not in time."""

    def step(self) -> Any:
        self.optimizer.zero_grad()
        self.model.step(*self.mine)
        return super().step()


WRONG = {
    one.__name__: one
    for one in (
        *(
            ForgetsToAverage,
            AveragesTwice,
            WithoutOneAxis,
            WrongRows,
            TargetsNotShifted,
            HalfDealt,
            FrozenStem,
        ),
        *(PoorMesh, OneRank, OraclesAnswer, OraclesLosses, FewerSteps, HiddenStates, SleepsLess, SkipsBlocks),
        *(Bfloat16, OtherRules, OnTheQuiet),
    )
}


def handed_in(name: str) -> Any:
    """As a function of a page: it travels by its bytes."""
    kind = WRONG[name]

    def assemble(me: Rank, task: Any) -> Any:
        return kind(me, task)

    return assemble
