"""05.fsdp: builds whose losses, weights or names are wrong, each in one way."""

from __future__ import annotations

import torch
import torch.distributed as dist
from answers.lesson_05.fsdp_builds.final import Final, Row
from torch import nn


class KeepsTheModule(Final):
    """The module's own parameters stay registered, beside the parts."""

    def empty(self, module):
        self.own = nn.ParameterList(list(module.parameters()))
        super().empty(module)


class SumRow(Row):
    def mean(self, grad):
        return super().mean(grad) * self.me.world_size


class Sums(Final):
    row_class = SumRow


class OwnRow(Row):
    def mean(self, grad):
        return grad.chunk(self.me.world_size)[self.me.rank].clone()


class OwnGradients(Final):
    """The part of its own gradient."""

    row_class = OwnRow


class StaleRow(Row):
    """The whole row is gathered once, and kept."""

    def start(self):
        if not hasattr(self, "first"):
            super().start()
            super().wait()
            self.first = self.whole.clone()
        self.whole.untyped_storage().resize_(self.size_bytes)
        self.whole.data.copy_(self.first)
        self.is_whole = True


class Stale(Final):
    """Computes with the first weights for ever; only what is saved is gathered anew."""

    row_class = StaleRow

    def full_state_dict(self):
        state = {name: buffer.clone() for name, buffer in self.module.named_buffers()}
        for row in self.rows:
            whole = torch.empty(row.size_bytes // row.part.itemsize, dtype=row.part.dtype, device=row.part.device)
            dist.all_gather(list(whole.chunk(self.me.world_size)), row.part.detach())
            for names, tensor in zip(row.names, row.cut(whole), strict=True):
                state |= {name: tensor.clone() for name in names}
        return state


class ForgetsTheRest(Final):
    """What is in no unit stays as it is, on every rank, and does not learn."""

    def modules_of(self, module, units):
        return units

    def make_whole(self, unit, following):
        for row in unit:
            row.start()
            row.wait()

    def before(self, unit):
        self.units.append([])
        super().before(unit)
        self.units.pop()

    def full_state_dict(self):
        return super().full_state_dict() | {n: p.detach().clone() for n, p in self.module.named_parameters()}

    def parameters(self, recurse=True):
        return iter(self.parts)


class DropsKeywords(Final):
    def forward(self, *args):
        return self.module(*args)


class OtherNames(Final):
    def full_state_dict(self):
        return {f"module.{name}": tensor for name, tensor in super().full_state_dict().items()}


class NoWaitRow(Row):
    def mean(self, grad):
        own = torch.empty_like(self.part)
        dist.reduce_scatter(own, list(grad.chunk(self.me.world_size)), async_op=True)
        return own / self.me.world_size


class NeverWaits(Final):
    row_class = NoWaitRow


class EmptiedTooSoonRow(Row):
    def wait(self):
        if self.work is not None:
            self.work, self.is_whole = None, True


class EmptiedTooSoon(Final):
    """The memory goes while the all-gather still writes to it."""

    row_class = EmptiedTooSoonRow


class FlatNames(Final):
    """The rows are saved as they lie."""

    def full_state_dict(self):
        state = super().full_state_dict()
        return {name: tensor.flatten() for name, tensor in state.items()}


class NoModule:
    def __init__(self, module, units, me, prefetch=1):
        self.module = module

    def __call__(self, *args, **kwargs):
        return self.module(*args, **kwargs)


class SetsASeed(Final):
    def __init__(self, module, units, me, prefetch=1):
        torch.manual_seed(0)
        super().__init__(module, units, me, prefetch)
