"""10.experts: builds whose outputs, gradients or load-balancing loss are wrong, each in one way."""

from __future__ import annotations

import math

import torch
import torch.distributed as dist
from answers.lesson_10.expert_builds.final import Final
from torch import nn


class OwnExpertsAlone(Final):
    """Choices of other ranks' experts count nothing."""

    def kept(self, chosen, weights, num_experts):
        return chosen // len(self.experts) == self.place()


class Unweighted(Final):
    def weighed(self, weights, kept):
        return torch.ones_like(weights)


class Normalised(Final):
    def weighed(self, weights, kept):
        return weights / weights.sum(-1, keepdim=True)


class EveryExpert(Final):
    def choice(self, probabilities):
        return probabilities.topk(probabilities.size(1), -1)


class LeftAsSorted(Final):
    def home(self, order):
        return torch.arange(len(order), device=order.device)


class KeepsByShape(Final):
    def forward(self, x, balance=False):
        kept = self.__dict__.setdefault("kept_results", {})
        if x.shape not in kept:
            kept[x.shape] = super().forward(x, balance)
        return kept[x.shape]


class ScalesInPlace(Final):
    def forward(self, x, balance=False):
        out = super().forward(x.clone(), balance)
        x.data.mul_(2)
        return out


class SetsASeed(Final):
    def __init__(self, *given):
        super().__init__(*given)
        torch.manual_seed(0)


class NeverWaits(Final):
    """A sum is begun beside, and nobody waits for it."""

    def told(self, counts):
        self.sums = counts.clone()
        self.begun = dist.all_reduce(self.sums, group=self.group, async_op=True)
        return super().told(counts)


class ReturnsAPair(Final):
    def forward(self, x, balance=False):
        return super().forward(x, balance), None


class NoCall:
    def __init__(self, *given):
        pass


class Narrow(Final):
    """All arithmetic is in float32, and the dtype of the output is right."""

    def widened(self, x):
        return x.float()


class ByPosition(Final):
    """The k first experts of each token, in place of the best."""

    def choice(self, probabilities):
        return probabilities[:, : self.top_k], torch.arange(self.top_k).expand(len(probabilities), -1)


# -- gradients --------------------------------------------------------------------------------------------------------


class NoGraph(Final):
    """Rows go by a plain collective."""

    def moved(self, rows, going, coming):
        return self.sent(rows.detach(), going, coming)


class RouterLearnsNothing(Final):
    def weighed(self, weights, kept):
        return weights.detach()


class OwnTokensAlone(Final):
    """Gradients of other ranks' rows are lost on the way back."""

    def sent_back(self, grad, going, coming):
        out = super().sent_back(grad, going, coming)
        begin = sum(coming[: self.place()])
        own = torch.zeros_like(out)
        rows = slice(begin, begin + coming[self.place()])
        own[rows] = out[rows]
        return own


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factor, None


class ExpertsAveraged(Final):
    """What goes back through an expert is divided by the ranks, and what goes on to x is not."""

    def run(self, expert, rows):
        return Scaled.apply(expert(Scaled.apply(rows, float(self.n))), 1 / self.n)


class OneWayToX(Final):
    def scores(self, tokens):
        return super().scores(tokens.detach())


# -- a limit ----------------------------------------------------------------------------------------------------------


class NoLimit(Final):
    def room(self, chosen, num_experts):
        return chosen.numel()


class TokenAfterToken(Final):
    def in_turn(self, chosen, weights):
        return torch.arange(chosen.numel(), device=chosen.device)


class LikeliestFirst(Final):
    def in_turn(self, chosen, weights):
        return weights.flatten().argsort(descending=True, stable=True)


class RoomOfOneChoice(Final):
    def room(self, chosen, num_experts):
        return math.ceil(self.capacity_factor * len(chosen) / num_experts)


# -- balance ----------------------------------------------------------------------------------------------------------


class CountsItsOwn(Final):
    def balance(self, probabilities, chosen, kept):
        num_experts = probabilities.size(1)
        shares = torch.bincount(chosen.flatten(), minlength=num_experts).to(probabilities.dtype) / chosen.numel()
        return num_experts * (shares * probabilities.mean(0)).sum()


class WithoutE(Final):
    def balance(self, probabilities, chosen, kept):
        return super().balance(probabilities, chosen, kept) / probabilities.size(1)


class MeanOfMeans(Final):
    def balance(self, probabilities, chosen, kept):
        num_experts = probabilities.size(1)
        counts = self.counted(chosen, kept, num_experts).to(probabilities.dtype)
        return num_experts * (counts / counts.sum() * probabilities.mean(0)).sum()


class CountsTheKept(Final):
    def counted(self, chosen, kept, num_experts):
        counts = torch.bincount(chosen[kept], minlength=num_experts)
        dist.all_reduce(counts, group=self.group)
        return counts


class PushesNothing(Final):
    def balance(self, probabilities, chosen, kept):
        return super().balance(probabilities.detach(), chosen, kept)


class PushesTooLittle(Final):
    """Each rank has the whole loss, and the gradient of its part of it."""

    def balance(self, probabilities, chosen, kept):
        own = super().balance(probabilities, chosen, kept) / self.n
        whole = own.detach().clone()
        dist.all_reduce(whole, group=self.group)
        return own + (whole - own).detach()


class NeverAPair(Final):
    """The loss is kept in an attribute."""

    def forward(self, x, balance=False):
        found = super().forward(x, balance)
        if balance:
            found, self.loss = found
        return found


class Nothing(nn.Module):
    """It gives back what came."""

    def __init__(self, *given):
        super().__init__()

    def forward(self, x, balance=False):
        return x
