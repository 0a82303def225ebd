"""05.fsdp: builds that are right of plain models, and wrong in a tool or of one kind of awkward models."""

from __future__ import annotations

import torch
import torch.distributed as dist
from answers.lesson_05.fsdp_builds.final import Final, Row
from torch import nn
from torch.distributed.fsdp import fully_shard


class OwnNorm(Final):
    def norm_of(self, gradients):
        return nn.utils.get_total_norm(gradients)


class AddsNorms(Final):
    def norm_of(self, gradients):
        norm = nn.utils.get_total_norm(gradients)
        dist.all_reduce(norm)
        return norm


class NeverScales(Final):
    def scale(self, gradient, max_norm, norm):
        return gradient * (max_norm / norm)


class AlwaysScales(Final):
    def scale(self, gradient, max_norm, norm):
        gradient *= (2 * max_norm / norm).clamp(max=1)


class LoadsNothing(Final):
    def load_full_state_dict(self, state):
        pass


class LoadsAnotherPart(Final):
    def load_full_state_dict(self, state):
        with torch.no_grad():
            for row in self.rows:
                whole = torch.cat([state[name].flatten() for name, *_ in row.names])
                parts = nn.functional.pad(whole, (0, -len(whole) % self.me.world_size)).chunk(self.me.world_size)
                row.part.copy_(parts[-1 - self.me.rank])


class ForgetsBuffers(Final):
    def load_full_state_dict(self, state):
        super().load_full_state_dict(state | dict(self.module.named_buffers()))


class MovesFrozen(Final):
    """One row for what learns and what does not."""

    def kind(self, parameter):
        return parameter.dtype

    def kept(self, rows):
        return [row.part.requires_grad_() for row in rows]


class OneDtype(Final):
    def kind(self, parameter):
        return parameter.requires_grad


class TiedTwice(Final):
    """Each place of a tied weight gets a parameter of its own."""

    def names_of(self, module):
        names = {}
        for name, parameter in list(module.named_parameters(remove_duplicate=False)):
            if parameter in names:
                owner, _, attribute = name.rpartition(".")
                parameter = nn.Parameter(parameter.detach().clone())
                setattr(module.get_submodule(owner), attribute, parameter)
            names[parameter] = [name]
        return names


class CountsGradients(Final):
    """Sends when as many gradients have come as the row has parameters: one that is not used never comes."""

    def before(self, unit):
        at, inner = self.units.index(unit), self.units[:-1]
        self.make_whole(unit, inner[at + 1 :] if at < len(inner) else inner)
        for row in unit:
            leaves = [tensor.detach() for tensor in row.cut(row.whole)]
            came = []
            for names, leaf in zip(row.names, leaves, strict=True):
                if row.part.requires_grad and torch.is_grad_enabled():
                    leaf.requires_grad_()
                    leaf.register_post_accumulate_grad_hook(
                        lambda _, row=row, leaves=leaves, came=came: self.count(unit, row, leaves, came)
                    )
                for owner, attribute in self.homes([names]):
                    setattr(owner, attribute, leaf)

    def count(self, unit, row, leaves, came):
        came.append(1)
        if len(came) == len(leaves):
            grad = torch.cat([leaf.grad.flatten() for leaf in leaves])
            grad = nn.functional.pad(grad, (0, -len(grad) % self.me.world_size))
            self.gradients_have_come(unit)
            mean = row.mean(grad)
            row.part.grad = mean if row.part.grad is None else row.part.grad + mean
            came.clear()
            for leaf in leaves:
                leaf.grad = None


class OneUse(Final):
    """A unit that has been used is not gathered again before a backward has come."""

    def before(self, unit):
        used = self.__dict__.setdefault("used", {})
        learns = any(row.part.requires_grad for row in unit)
        if learns and used.get(id(unit)) and torch.is_grad_enabled():
            raise RuntimeError("this unit waits for its backward")
        used[id(unit)] = torch.is_grad_enabled()
        super().before(unit)

    def gradients_have_come(self, unit):
        self.used[id(unit)] = False
        super().gradients_have_come(unit)


class StaysAfterAnError(Final):
    """Nobody lets go when forward has failed, and the next forward takes it for being in use."""

    def register(self, each, unit):
        each.register_forward_pre_hook(lambda *_: self.before(unit))
        each.register_forward_hook(lambda _module, _inputs, output: self.after(unit, output))

    def before(self, unit):
        under_way = self.__dict__.setdefault("under_way", [])
        if any(unit is one for one in under_way):
            raise RuntimeError("a forward of this unit is under way")
        under_way.append(unit)
        super().before(unit)

    def after(self, unit, output):
        self.under_way[:] = [one for one in self.under_way if one is not unit]
        super().after(unit, output)


class RowInMemoryOrder(Row):
    """Cuts the numbers as they lie in memory, and views them in the order of the shape."""

    def __init__(self, parameters, names, me):
        super().__init__([as_it_lies(parameter) for parameter in parameters], names, me)


def as_it_lies(parameter):
    if parameter.is_contiguous() or parameter.dim() != 2:
        return parameter
    return nn.Parameter(parameter.detach().t().reshape(parameter.shape), requires_grad=parameter.requires_grad)


class InMemoryOrder(Final):
    row_class = RowInMemoryOrder


class SharedUnits(Final):
    """The units are the class's: the last model's for all."""

    def __init__(self, module, units, me, prefetch=1):
        super().__init__(module, units, me, prefetch)
        type(self).module_of_all = module

    def homes(self, names):
        module = self.__dict__.get("module_of_all") or getattr(type(self), "module_of_all", self.module)
        for name in [name for several in names for name in several]:
            owner, _, attribute = name.rpartition(".")
            home = self.module if self._is_new() else module
            yield home.get_submodule(owner), attribute

    def _is_new(self):
        return "parts" not in self._modules or any(True for _ in self.module.parameters())


class TwoAtLeast(Final):
    def norm_of(self, gradients):
        if self.me.world_size == 1:
            raise ValueError("there is nobody to ask")
        return super().norm_of(gradients)


class WithTorchs(nn.Module):
    def __init__(self, module, units, me, prefetch=1):
        super().__init__()
        for unit in units:
            fully_shard(unit)
        self.module = fully_shard(module)

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def full_state_dict(self):
        return {name: tensor.full_tensor() for name, tensor in self.module.state_dict().items()}
