"""05.fsdp: the whole build, of which wrong ones are made by what they change."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.utils._pytree import tree_leaves


class Row:
    """The numbers of some parameters, one behind the other. ``whole`` has memory only while it is needed."""

    def __init__(self, parameters, names, me):
        self.names, self.shapes, self.me, self.work = names, [p.shape for p in parameters], me, None
        numbers = torch.cat([p.detach().flatten() for p in parameters])
        self.whole = F.pad(numbers, (0, -len(numbers) % me.world_size))
        self.size_bytes, self.is_whole = self.whole.nbytes, True
        part = self.whole.chunk(me.world_size)[me.rank].clone()
        self.part = nn.Parameter(part, requires_grad=parameters[0].requires_grad)
        self.free()

    def cut(self, whole):
        sizes = [shape.numel() for shape in self.shapes]
        pieces = whole.split([*sizes, len(whole) - sum(sizes)])[: len(sizes)]
        return [piece.view(shape) for piece, shape in zip(pieces, self.shapes, strict=True)]

    def start(self):
        if not self.is_whole and self.work is None:
            self.whole.untyped_storage().resize_(self.size_bytes)
            self.work = self.gather()

    def gather(self):
        parts = list(self.whole.data.chunk(self.me.world_size))
        return dist.all_gather(parts, self.part.detach(), async_op=True)

    def wait(self):
        if self.work is not None:
            self.work.wait()
            self.work, self.is_whole = None, True

    def free(self):
        self.wait()
        self.whole.untyped_storage().resize_(0)
        self.is_whole = False

    def mean(self, grad):
        own = torch.empty_like(self.part)
        dist.reduce_scatter(own, list(grad.chunk(self.me.world_size)))
        return own / self.me.world_size


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, part, row, wrapper, unit):
        ctx.row, ctx.wrapper, ctx.unit = row, wrapper, unit
        return row.whole.detach()

    @staticmethod
    def backward(ctx, grad):
        ctx.wrapper.gradients_have_come(ctx.unit)
        return ctx.row.mean(grad), None, None, None


class Final(nn.Module):
    """A row for each kind of parameter of a unit, whose storage is emptied and filled."""

    row_class = Row

    def __init__(self, module, units, me, prefetch=1):
        super().__init__()
        self.module, self.prefetch, self.units, self.me = module, prefetch, [], me
        names = self.names_of(module)
        for each in self.modules_of(module, units):
            kinds = {}
            for parameter in each.parameters():
                if parameter in names:
                    kinds.setdefault(self.kind(parameter), []).append((parameter, names.pop(parameter)))
            unit = [self.row_class(*zip(*found, strict=True), me) for found in kinds.values()]
            self.units.append(unit)
            self.register(each, unit)
        self.rows = [row for unit in self.units for row in unit]
        self.parts = nn.ParameterList(self.kept(self.rows))
        self.empty(module)

    def names_of(self, module):
        names = {}
        for name, parameter in module.named_parameters(remove_duplicate=False):
            names.setdefault(parameter, []).append(name)
        return names

    def modules_of(self, module, units):
        return [*units, module]

    def kind(self, parameter):
        return parameter.dtype, parameter.requires_grad

    def register(self, each, unit):
        each.register_forward_pre_hook(lambda *_: self.before(unit))
        each.register_forward_hook(lambda _module, _inputs, output: self.after(unit, output), always_call=True)

    def kept(self, rows):
        return [row.part for row in rows]

    def empty(self, module):
        for row in self.rows:
            for owner, attribute in self.homes(row.names):
                owner._parameters.pop(attribute, None)

    def homes(self, names):
        for name in [name for several in names for name in several]:
            owner, _, attribute = name.rpartition(".")
            yield self.module.get_submodule(owner), attribute

    def make_whole(self, unit, following):
        for row in [row for one in [unit, *following[: self.prefetch]] for row in one]:
            row.start()
        for row in unit:
            row.wait()

    def before(self, unit):
        at, inner = self.units.index(unit), self.units[:-1]
        self.make_whole(unit, inner[at + 1 :] if at < len(inner) else inner)
        for row in unit:
            for names, tensor in zip(row.names, row.cut(self.whole_of(row, unit)), strict=True):
                for owner, attribute in self.homes([names]):
                    setattr(owner, attribute, tensor)

    def whole_of(self, row, unit):
        return Gather.apply(row.part, row, self, unit)

    def after(self, unit, output):
        self.free_after_forward(unit)
        at = self.units.index(unit)
        for tensor in tree_leaves(output):
            if isinstance(tensor, torch.Tensor) and tensor.requires_grad:
                tensor.register_hook(lambda _: self.make_whole(unit, self.before_it(at)))

    def before_it(self, at):
        return self.units[:at][::-1]

    def free_after_forward(self, unit):
        for row in unit:
            row.free()

    def gradients_have_come(self, unit):
        for row in unit:
            row.free()

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def full_state_dict(self):
        state = {name: one.clone() for name, one in self.module.state_dict().items()}
        for row in self.rows:
            row.start()
            row.wait()
            for names, tensor in zip(row.names, row.cut(row.whole), strict=True):
                state |= {name: tensor.detach().clone() for name in names}
            row.free()
        return state

    @torch.no_grad()
    def load_full_state_dict(self, state):
        for name, buffer in self.module.state_dict().items():
            buffer.copy_(state[name])
        for row in self.rows:
            whole = torch.cat([state[name].flatten() for name, *_ in row.names])
            whole = F.pad(whole, (0, -len(whole) % self.me.world_size))
            row.part.copy_(whole.chunk(self.me.world_size)[self.me.rank])

    @torch.no_grad()
    def clip_grad_norm_(self, max_norm):
        gradients = [part.grad for part in self.parts if part.grad is not None]
        norm = self.norm_of(gradients)
        for gradient in gradients:
            self.scale(gradient, max_norm, norm)
        return norm

    def norm_of(self, gradients):
        total = sum(gradient.double().square().sum() for gradient in gradients)
        dist.all_reduce(total)
        return total.sqrt()

    def scale(self, gradient, max_norm, norm):
        gradient *= (max_norm / (norm + 1e-6)).clamp(max=1)


# -- right ones in other styles ----------------------------------------------------------------------------------------


class RowByTensors(Row):
    def gather(self):
        return dist.all_gather_into_tensor(self.whole.data, self.part.detach(), async_op=True)

    def mean(self, grad):
        own = torch.empty_like(self.part)
        dist.reduce_scatter_tensor(own, grad.contiguous() / self.me.world_size)
        return own


class ByTensors(Final):
    """By the collectives that take one tensor; the mean as a sum of quotients."""

    row_class = RowByTensors


class RowOfChunks(Row):
    def mean(self, grad):
        own = torch.empty_like(self.part)
        work = dist.reduce_scatter(own, [one.contiguous() for one in grad.chunk(self.me.world_size)], async_op=True)
        work.wait()
        return own.div_(self.me.world_size)


class Waits(Final):
    """Begun and waited for, in place."""

    row_class = RowOfChunks


class KeepsInList(Final):
    """Parts are registered one by one, and gradients of a rest come at the end."""

    def __init__(self, module, units, me, prefetch=1):
        super().__init__(module, list(units), me, prefetch)
        del self.parts
        for number, row in enumerate(self.rows):
            self.register_parameter(f"part_{number}", row.part)

    def clip_grad_norm_(self, max_norm):
        gradients = [row.part.grad for row in self.rows if row.part.grad is not None]
        own = torch.stack([gradient.double().norm() for gradient in gradients]).norm()
        each = [torch.zeros_like(own) for _ in range(self.me.world_size)]
        dist.all_gather(each, own)
        norm = torch.stack(each).norm()
        if norm > max_norm:
            for gradient in gradients:
                gradient.mul_(max_norm / norm)
        return norm
