"""10.experts: builds whose values are right, and which send, compute or keep more than they need; and awkward ones."""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.distributed as dist
from answers.lesson_10.expert_builds.final import Final, Moved
from torch import nn

from course_lib.parallel.experts import GivenExperts


class PieceByPiece(Final):
    """An expert is called for the rows of each rank by themselves."""

    def computed(self, rows, come):
        parts = rows.split(come.tolist())
        return torch.cat([self.experts[at % len(self.experts)](part) for at, part in enumerate(parts)])


class Padded(Final):
    """All parts are as large as the largest."""

    def sent(self, rows, going, coming):
        most = torch.tensor(max(going))
        dist.all_reduce(most, dist.ReduceOp.MAX, group=self.group)
        most = int(most)
        full = rows.new_zeros(self.n, most, rows.size(1))
        for place, part in enumerate(rows.split(going)):
            full[place, : len(part)] = part
        came = torch.empty_like(full)
        dist.all_to_all_single(came, full, group=self.group)
        return torch.cat([came[place, :size] for place, size in enumerate(coming)])

    def told(self, counts):
        every = counts.new_empty(self.n * len(counts))
        dist.all_gather_into_tensor(every, counts, group=self.group)
        num = len(self.experts)
        return every.view(self.n, -1)[:, self.place() * num : (self.place() + 1) * num].flatten()


class WithBarriers(Final):
    def moved(self, rows, going, coming):
        dist.barrier(group=self.group)
        return super().moved(rows, going, coming)


class AllAtOnce(Final):
    """A place for each token at each expert, where outputs are added up."""

    def rows_of(self, tokens, places):
        num_experts = self.n * len(self.experts)
        every = tokens.unsqueeze(1).repeat(1, num_experts, 1)  # (N, E, D)
        return every[:, 0][places]


class KeepsRows(Final):
    def moved(self, rows, going, coming):
        return KeepingRows.apply(self, rows, going, coming)


class KeepingRows(torch.autograd.Function):
    """What was sent and what came stays until backward."""

    @staticmethod
    def forward(ctx, layer, rows, going, coming):
        out = layer.sent(rows, going, coming)
        ctx.save_for_backward(rows.clone(), out.clone())
        ctx.layer, ctx.sizes = layer, (going, coming)
        return out

    @staticmethod
    def backward(ctx, grad):
        return Moved.backward(ctx, grad)


class LeftBehind(Final):
    def choice(self, probabilities):
        self.last = probabilities.detach().clone()
        return super().choice(probabilities)


class SendsTheDropped(Final):
    """What has no room is sent, computed, and counts 0."""

    def weighed(self, weights, kept):
        return weights * kept

    def journey(self, tokens, chosen, kept, weights, num_experts):
        return super().journey(tokens, chosen, torch.ones_like(kept), weights, num_experts)


# -- awkward batches --------------------------------------------------------------------------------------------------


class RestsWithoutTokens(Final):
    def forward(self, x, balance=False):
        if not len(x):
            return (x, x.sum()) if balance else x
        return super().forward(x, balance)


class RestsWithoutRows(Final):
    def computed(self, rows, come):
        return super().computed(rows, come) if len(rows) else rows.detach()


class LosesTheDtype(Final):
    def narrowed(self, x, like):
        return x


class CoarseScores(Final):
    def scores(self, tokens):
        return self.router(tokens)


class RestsWhenFrozen(Final):
    def with_history(self, tokens):
        return tokens


class Shared(Final):
    """The experts stand in the class."""

    kept_experts: ClassVar = {}

    def __init__(self, me, router, experts, top_k=2, capacity_factor=None, group=None):
        super().__init__(me, router, experts, top_k, capacity_factor, group)
        Shared.kept_experts["now"] = experts

    def computed(self, rows, come):
        self.experts = nn.ModuleList(Shared.kept_experts["now"])
        return super().computed(rows, come)


class Strangers(Final):
    """All ranks of the job are asked for counts."""

    def num_ranks(self):
        return self.me.world_size

    def told(self, counts):
        come = torch.empty_like(counts)
        dist.all_to_all_single(come, counts)
        return come


class TwoAtLeast(Final):
    def __init__(self, me, router, experts, top_k=2, capacity_factor=None, group=None):
        super().__init__(me, router, experts, top_k, capacity_factor, group)
        if me.world_size == 1:
            raise ValueError("nobody is there")


class ByTheCourse(nn.Module):
    def __init__(self, me, router, experts, top_k=2, capacity_factor=None, group=None):
        super().__init__()
        self.layer = GivenExperts(me, router, experts, top_k, capacity_factor, group)

    def forward(self, x, balance=False):
        return self.layer(x, balance)
