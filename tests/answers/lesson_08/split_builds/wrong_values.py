"""08.split: builds whose values, cuts or calls are wrong, each in one way."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as F
from answers.lesson_08.split_builds.earlier import BlocksAlone
from answers.lesson_08.split_builds.final import Final
from torch import nn

from course_lib.parallel.tensor import GivenTransformer, identity_all_reduce


class ByTheCourse(GivenTransformer):
    """The course's own."""


class BiasOnEachRank(Final):
    def rows(self, name, x):
        return self.dropped(self.leave(self.linear(name, x)))


class NoBiasOfRows(Final):
    """Only rank 0 adds it: the others have no gradient."""

    def rows(self, name, x):
        y = F.linear(x, self.parts[f"{name}.weight"], self.parts.get(f"{name}.bias") if self.place == 0 else None)
        return self.dropped(self.leave(y))


class NotSummedBack(Final):
    """No gate at the entrance."""

    def enter(self, x):
        return super().enter(x) if self.sequence else x


class NoEntranceOfTheMlp(Final):
    def mlp(self, name, x):
        x = super().enter(x) if self.sequence else x
        return self.rows(f"{name}.w_down", F.gelu(self.linear(f"{name}.w_up", x)))


class SumBothWays(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        total = x.clone()
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx, grad):
        total = grad.clone()
        dist.all_reduce(total, group=ctx.group)
        return total, None


class SummedTwice(Final):
    """An exit that sums gradients as well."""

    def leave(self, x):
        return super().leave(x) if self.sequence else SumBothWays.apply(x, self.group)


class LossByRanks(Final):
    def cross_entropy(self, logits, targets):
        return super().cross_entropy(logits, targets) / self.count


class LossOfEach(Final):
    """A list of losses, one for each position."""

    def loss(self, tokens, targets):
        return super().loss(tokens, targets) + torch.zeros(2, dtype=torch.float64)


class HeadsInTurn(Final):
    """Every n-th column of the hidden units."""

    def own(self, name, whole):
        if "w_up" in name:
            return whole[self.place :: self.count].clone()
        if name.endswith("w_down.weight"):
            return whole[:, self.place :: self.count].clone()
        return super().own(name, whole)


class KeepsCopies(Final):
    """What computes are the slices, and `parts` are copies for show."""

    def cut(self, model):
        parts = super().cut(model)
        self.first = [part.detach().clone() for part in parts.values()]
        return parts

    def loss(self, tokens, targets):
        shown, self.parts = self.parts, {}
        for (name, part), first in zip(shown.items(), self.first, strict=True):
            self.parts[name] = part + (first - part.detach())
        try:
            return super().loss(tokens, targets)
        finally:
            self.parts = shown


class InFloat32(Final):
    def cross_entropy(self, logits, targets):
        return super().cross_entropy(logits.float(), targets).to(logits.dtype)


class SharesTheModel(Final):
    """Views of the model's weights."""

    def own(self, name, whole):
        return whole if self.dim(name) is None else super().own(name, whole)


class SpoilsTheBatch(Final):
    def here(self, tokens):
        found = super().here(tokens)
        if tokens.size(0) > 1:
            tokens.mul_(1).add_(0)
            tokens[0, 0] = 0
        return found


class NotWaitedFor(Final):
    def cross_entropy(self, logits, targets):
        dist.all_reduce(torch.zeros(1, device=self.me.device), group=self.group, async_op=True)
        return super().cross_entropy(logits, targets)


class NoParts:
    def __init__(self, me, model, group=None, sequence=False):
        self.model = model

    def loss(self, tokens, targets):
        return F.cross_entropy(self.model(tokens).flatten(0, 1), targets.flatten())


class NotCut(Final):
    """Every rank computes the whole model."""

    def own(self, name, whole):
        return whole.clone()

    def enter(self, x):
        return x

    leave = enter

    def here(self, tokens):
        return tokens, torch.ones_like(tokens, dtype=torch.bool)


class ShortNames(Final):
    def cut(self, model):
        return {name.replace(".weight", ""): part for name, part in super().cut(model).items()}


# -- the vocabulary ----------------------------------------------------------------------------------------------------


class VocabularyWhole(BlocksAlone):
    """As in step 1."""


class WholeLogits(Final):
    """Gathers the logits for the loss of PyTorch."""

    def cross_entropy(self, logits, targets):
        parts = [torch.empty_like(logits) for _ in range(self.count)]
        dist.all_gather(parts, logits.detach().contiguous(), group=self.group)
        parts[self.place] = logits
        whole = torch.cat(parts, -1)
        return F.cross_entropy(whole.flatten(0, 1), targets.flatten())


class Overflows(Final):
    def cross_entropy(self, logits, targets):
        place, is_here = self.here(targets)
        target = torch.where(is_here, logits.gather(-1, place[..., None])[..., 0], 0.0)
        sums = identity_sum(self, torch.stack([logits.exp().sum(-1), target]))
        return (sums[0].log() - sums[1]).mean()


def identity_sum(own, x):
    sequence, own.sequence = own.sequence, False
    total = own.leave(x)
    own.sequence = sequence
    return total


class OwnLargest(Final):
    """Each rank subtracts its own largest logit."""

    def cross_entropy(self, logits, targets):
        shifted = logits - logits.detach().amax(-1, keepdim=True)
        place, is_here = self.here(targets)
        target = torch.where(is_here, shifted.gather(-1, place[..., None])[..., 0], 0.0)
        sums = identity_sum(self, torch.stack([shifted.exp().sum(-1), target]))
        return (sums[0].log() - sums[1]).mean()


class TokensOfOthers(Final):
    """Tokens that live elsewhere give this rank's first row."""

    def found(self, tokens):
        return F.embedding(self.here(tokens)[0], self.parts["stem.tokens.weight"])


# -- messages ----------------------------------------------------------------------------------------------------------


class WithABarrier(Final):
    def loss(self, tokens, targets):
        dist.barrier(group=self.group)
        return super().loss(tokens, targets)


class EntersThreeTimes(Final):
    def linear(self, name, x):
        return super().linear(name, self.enter(x) if name.endswith(("w_q", "w_k", "w_v")) else x)

    def attention(self, name, x):
        enter, calls = self.enter, []

        def later(y):
            calls.append(y)
            return y if len(calls) == 1 else enter(y)

        self.enter = later
        try:
            return super().attention(name, x)
        finally:
            del self.enter


class SendsTargets(Final):
    """The sums of a position travel for every token of the vocabulary."""

    def cross_entropy(self, logits, targets):
        wide = logits.detach().clone()
        dist.all_reduce(wide, group=self.group)
        return super().cross_entropy(logits, targets)


class GathersWeights(Final):
    """Each matrix of the MLP is gathered whole before it is used, and let go again."""

    def mlp(self, name, x):
        up, down = (self.gathered(f"{name}.{one}.weight") for one in ("w_up", "w_down"))
        bias = self.parts.get(f"{name}.w_up.bias")
        if self.sequence or bias is not None:
            return super().mlp(name, x)
        hidden = up.size(0) // self.count
        own = slice(self.place * hidden, (self.place + 1) * hidden)
        h = F.gelu(F.linear(identity_all_reduce(self.me, x, group=self.group), up[own]))
        return self.dropped(self.leave(F.linear(h, down[:, own])))

    def gathered(self, name):
        part, dim = self.parts[name], self.dim(name)
        parts = [torch.empty_like(part) for _ in range(self.count)]
        dist.all_gather(parts, part.detach().contiguous(), group=self.group)
        parts[self.place] = part
        return torch.cat(parts, dim)


class Untrained(nn.Module):
    """A module without parts."""

    def __init__(self, *given, **named):
        super().__init__()
