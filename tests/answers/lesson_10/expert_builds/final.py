"""10.experts: right builds that pass all steps; the first has a method for each thing to go wrong."""

from __future__ import annotations

import math

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed._functional_collectives import all_to_all_single_autograd


class Moved(torch.autograd.Function):
    """Rows to other ranks, and their gradients back."""

    @staticmethod
    def forward(ctx, layer, rows, going, coming):
        ctx.layer, ctx.sizes = layer, (going, coming)
        return layer.sent(rows, going, coming)

    @staticmethod
    def backward(ctx, grad):
        going, coming = ctx.sizes
        return None, ctx.layer.sent_back(grad, coming, going), None, None


class Final(nn.Module):
    """Choices sorted by expert, counts before rows, and two exchanges with a backward of their own."""

    def __init__(self, me, router, experts, top_k=2, capacity_factor=None, group=None):
        super().__init__()
        self.me, self.router, self.experts = me, router, nn.ModuleList(experts)
        self.top_k, self.capacity_factor, self.group = top_k, capacity_factor, group
        self.n = self.num_ranks()

    def num_ranks(self):
        return self.me.world_size if self.group is None else dist.get_world_size(self.group)

    def place(self):
        return self.me.rank if self.group is None else dist.get_group_rank(self.group, self.me.rank)

    def forward(self, x, balance=False):
        tokens = self.with_history(x.reshape(-1, x.size(-1)))
        probabilities = self.scores(tokens).softmax(-1)
        weights, chosen = self.choice(probabilities)
        kept = self.kept(chosen, weights, probabilities.size(1))
        out = self.journey(tokens, chosen, kept, self.weighed(weights, kept), probabilities.size(1))
        out = self.narrowed(out, x).view_as(x)
        return (out, self.balance(probabilities, chosen, kept)) if balance else out

    # -- the router ---------------------------------------------------------------------------------------------------

    def with_history(self, tokens):
        """Also where x needs no gradient every rank takes part in backward."""
        return tokens if tokens.requires_grad or not torch.is_grad_enabled() else tokens.detach().requires_grad_()

    def widened(self, x):
        return x.to(torch.promote_types(x.dtype, torch.float32))

    def narrowed(self, x, like):
        return x.to(like.dtype)

    def scores(self, tokens):
        return F.linear(self.widened(tokens), self.widened(self.router.weight))

    def choice(self, probabilities):
        return probabilities.topk(self.top_k, -1)

    def weighed(self, weights, kept):
        return weights

    # -- a limit ------------------------------------------------------------------------------------------------------

    def room(self, chosen, num_experts):
        return math.ceil(self.capacity_factor * chosen.numel() / num_experts)

    def kept(self, chosen, weights, num_experts):
        """(N, k): which choices have room."""
        if self.capacity_factor is None:
            return torch.ones_like(chosen, dtype=torch.bool)
        in_turn = self.in_turn(chosen, weights)  # places of choices, in the order of their turn
        taken = F.one_hot(chosen.flatten()[in_turn], num_experts)
        before = (taken.cumsum(0) * taken).sum(1) - 1
        kept = torch.empty_like(in_turn, dtype=torch.bool)
        kept[in_turn] = before < self.room(chosen, num_experts)
        return kept.view_as(chosen)

    def in_turn(self, chosen, weights):
        places = torch.arange(chosen.numel(), device=chosen.device)
        return places.view_as(chosen).T.flatten()

    # -- there and back -----------------------------------------------------------------------------------------------

    def journey(self, tokens, chosen, kept, weights, num_experts):
        order = chosen.masked_fill(~kept, num_experts).flatten().argsort(stable=True)[: int(kept.sum())]
        counts = torch.bincount(chosen[kept], minlength=num_experts)
        come = self.told(counts)  # for each rank, how many rows it has for each of these experts
        going, coming = (part.view(self.n, -1).sum(1).tolist() for part in (counts, come))
        rows = self.moved(self.rows_of(tokens, order // chosen.size(1)), going, coming)
        back = self.moved(self.computed(rows, come), coming, going)
        slots = back.new_zeros(chosen.numel(), back.size(1)).index_put((self.home(order),), back)
        return (self.widened(slots).view(*chosen.shape, back.size(1)) * weights.unsqueeze(-1)).sum(1)

    def rows_of(self, tokens, places):
        return tokens[places]

    def home(self, order):
        return order

    def told(self, counts):
        come = torch.empty_like(counts)
        dist.all_to_all_single(come, counts, group=self.group)
        return come

    def moved(self, rows, going, coming):
        return Moved.apply(self, rows, going, coming)

    def sent(self, rows, going, coming):
        out = rows.new_empty(sum(coming), rows.size(1))
        dist.all_to_all_single(out, rows.contiguous(), coming, going, group=self.group)
        return out

    def sent_back(self, grad, going, coming):
        return self.sent(grad, going, coming)

    def computed(self, rows, come):
        own = torch.arange(len(self.experts), device=rows.device)
        by_expert = own.repeat(self.n).repeat_interleave(come).argsort(stable=True)
        parts = rows[by_expert].split(come.view(self.n, -1).sum(0).tolist())
        made = torch.cat([self.run(expert, part) for expert, part in zip(self.experts, parts, strict=True)])
        return made[by_expert.argsort()]

    def run(self, expert, rows):
        return expert(rows)

    # -- balance ------------------------------------------------------------------------------------------------------

    def balance(self, probabilities, chosen, kept):
        num_experts = probabilities.size(1)
        counts = self.counted(chosen, kept, num_experts).to(probabilities.dtype)
        total = counts.sum()
        means = probabilities.sum(0) * self.top_k / total
        return num_experts * (counts / total * means).sum() * self.n

    def counted(self, chosen, kept, num_experts):
        counts = torch.bincount(chosen.flatten(), minlength=num_experts)
        dist.all_reduce(counts, group=self.group)
        return counts


class ByPyTorch(Final):
    """PyTorch's own exchange with a history, and its all-reduce of probabilities."""

    def moved(self, rows, going, coming):
        return all_to_all_single_autograd(rows.contiguous(), coming, going, self.group or dist.group.WORLD)

    def balance(self, probabilities, chosen, kept):
        num_experts = probabilities.size(1)
        counts = self.counted(chosen, kept, num_experts).to(probabilities.dtype)
        means = probabilities.sum(0) * self.top_k / counts.sum() * self.n
        return num_experts * (counts / counts.sum() * means).sum()


class WithNumbers(Final):
    """The number of its expert goes along with each row; ranks are told their sizes alone."""

    def journey(self, tokens, chosen, kept, weights, num_experts):
        place, choice = kept.nonzero(as_tuple=True)
        experts = chosen[place, choice]
        ranks = experts // len(self.experts)
        order = ranks.argsort(stable=True)
        counts = torch.bincount(ranks, minlength=self.n)
        come = torch.empty_like(counts)
        dist.all_to_all_single(come, counts, group=self.group)
        going, coming = counts.tolist(), come.tolist()
        numbers = experts.new_empty(sum(coming))
        dist.all_to_all_single(numbers, experts[order].contiguous(), coming, going, group=self.group)
        rows = self.moved(tokens[place[order]], going, coming)
        first = self.place() * len(self.experts)
        made = torch.zeros_like(rows)
        for at, expert in enumerate(self.experts):
            own = (numbers == first + at).nonzero().squeeze(1)
            made = made.index_copy(0, own, expert(rows[own]))
        back = self.moved(made, coming, going)
        out = torch.zeros_like(self.widened(tokens))
        share = weights[place[order], choice[order]].unsqueeze(-1)
        return out.index_add(0, place[order], self.widened(back) * share)


class ByLoops(Final):
    """Room is given out choice by choice, and rows are put back by an inverse order."""

    def kept(self, chosen, weights, num_experts):
        if self.capacity_factor is None:
            return torch.ones_like(chosen, dtype=torch.bool)
        room = [self.room(chosen, num_experts)] * num_experts
        kept = torch.zeros(chosen.shape, dtype=torch.bool)
        for choice, column in enumerate(chosen.T.tolist()):
            for token, expert in enumerate(column):
                kept[token, choice] = room[expert] > 0
                room[expert] -= 1
        return kept.to(chosen.device)

    def computed(self, rows, come):
        blocks = rows.split(come.tolist())
        num = len(self.experts)
        made = {}
        for at, expert in enumerate(self.experts):
            own = blocks[at::num]
            parts = expert(torch.cat(own)).split([len(block) for block in own])
            made |= {(source, at): part for source, part in enumerate(parts)}
        return torch.cat([made[source, at] for source in range(self.n) for at in range(num)])


class SumsOfAll(Final):
    """The probabilities of all ranks are added up by an all-reduce with a history: each rank has the whole loss."""

    def balance(self, probabilities, chosen, kept):
        num_experts = probabilities.size(1)
        counts = self.counted(chosen, kept, num_experts).to(probabilities.dtype)
        sums = SummedUp.apply(self, probabilities.sum(0))
        return num_experts * (counts * sums).sum() * self.top_k / counts.sum() ** 2


class SummedUp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, layer, x):
        ctx.layer, out = layer, x.clone()
        dist.all_reduce(out, group=layer.group)
        return out

    @staticmethod
    def backward(ctx, grad):
        out = grad.clone()
        dist.all_reduce(out, group=ctx.layer.group)
        return None, out
