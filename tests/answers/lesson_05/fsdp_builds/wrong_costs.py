"""05.fsdp: builds whose values are right, and which cost too much or begin too late, each in one way."""

from __future__ import annotations

import torch
import torch.distributed as dist
from answers.lesson_05.fsdp_builds.final import Final, Row


class AllReduceRow(Row):
    def mean(self, grad):
        whole = grad.clone()
        dist.all_reduce(whole)
        return whole.chunk(self.me.world_size)[self.me.rank] / self.me.world_size


class AllReduces(Final):
    row_class = AllReduceRow


class WithABarrier(Final):
    def gradients_have_come(self, unit):
        super().gradients_have_come(unit)
        dist.barrier()


class GatherThrice(Final):
    """Once more when the gradients have come."""

    def gradients_have_come(self, unit):
        super().gradients_have_come(unit)
        for row in unit:
            row.start()
            row.free()


class EachParameter(Final):
    """A row for each parameter."""

    def kind(self, parameter):
        return id(parameter)


class Float64Row(Row):
    def gather(self):
        parts = [torch.empty(len(self.part), dtype=torch.complex128) for _ in range(self.me.world_size)]
        dist.all_gather(parts, self.part.detach().to(torch.complex128))
        self.whole.data.copy_(torch.cat(parts).real)
        return dist.barrier(async_op=True)


class TwiceTheBytes(Final):
    """Weights travel as complex numbers, whose second half is zeros."""

    row_class = Float64Row


class HoldsTheModule(Final):
    """The weights that were given are kept beside the parts."""

    def names_of(self, module):
        self.given = [parameter.detach() for parameter in module.parameters()]
        return super().names_of(module)


class NeverFrees(Final):
    """Whole from forward to backward."""

    def free_after_forward(self, unit):
        pass

    def make_whole(self, unit, following):
        super().make_whole([row for row in unit if not row.is_whole], following)


class WholeWithoutBackward(Final):
    """A unit goes after forward only where a backward is to come."""

    def free_after_forward(self, unit):
        if torch.is_grad_enabled():
            super().free_after_forward(unit)


class KeepsGradients(Final):
    """The whole gradient of every unit stays until backward is over."""

    def whole_of(self, row, unit):
        whole = super().whole_of(row, unit)
        if whole.requires_grad:
            whole.register_hook(self.keep)
        return whole

    def keep(self, grad):
        if not self.__dict__.get("grads"):
            torch.autograd.Variable._execution_engine.queue_callback(lambda: self.grads.clear())
        self.__dict__.setdefault("grads", []).append(grad.clone())


class KeepsAll(Final):
    """A record of all steps, of the first unit."""

    def gradients_have_come(self, unit):
        if unit is self.units[0]:
            self.__dict__.setdefault("record", []).extend(row.whole.data.clone() for row in unit)
        super().gradients_have_come(unit)


class WhenNeeded(Final):
    """An all-gather begins when its unit does."""

    def make_whole(self, unit, following):
        super().make_whole(unit, [])


class WaitsAtOnce(Final):
    """Ahead of its time, and waited for on the spot."""

    def make_whole(self, unit, following):
        for row in [row for one in [unit, *following[: self.prefetch]] for row in one]:
            row.start()
            row.wait()


class OnlyForward(Final):
    def before_it(self, at):
        return []


class TooFar(Final):
    def __init__(self, module, units, me, prefetch=1):
        super().__init__(module, units, me, prefetch + 1)


class IgnoresTheNumber(Final):
    def __init__(self, module, units, me, prefetch=1):
        super().__init__(module, units, me, 1)
