"""10.experts: short answers that pass the first steps, and no later one."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed._functional_collectives import all_gather_single_autograd, all_to_all_single_autograd


class ForwardAlone(nn.Module):
    """Step 1: all tokens on all ranks, and a sum over ranks, by plain collectives."""

    def __init__(self, me, router, experts, top_k=2, capacity_factor=None, group=None):
        super().__init__()
        self.me, self.router, self.experts, self.top_k = me, router, nn.ModuleList(experts), top_k

    def everybodys(self, tokens):
        every = tokens.new_empty(self.me.world_size * len(tokens), tokens.size(1))
        dist.all_gather_into_tensor(every, tokens.detach().contiguous())
        return every

    def summed(self, out):
        dist.all_reduce(out)
        return out

    def forward(self, x, balance=False):
        tokens = x.reshape(-1, x.size(-1))
        every = self.everybodys(tokens)
        probabilities = self.router(every).softmax(-1)
        weights, chosen = probabilities.topk(self.top_k)
        mix = torch.zeros_like(probabilities).scatter(1, chosen, weights)
        first = self.me.rank * len(self.experts)
        out = sum(mix[:, [first + at]] * expert(every) for at, expert in enumerate(self.experts))
        return self.summed(out).split(len(tokens))[self.me.rank].view_as(x)


class ByPlaces(nn.Module):
    """Steps 1 and 2: a place for each token at each expert, by PyTorch's exchange of equal parts."""

    def __init__(self, me, router, experts, top_k=2, capacity_factor=None, group=None):
        super().__init__()
        self.router, self.experts, self.top_k = router, nn.ModuleList(experts), top_k

    def traded(self, x):
        return all_to_all_single_autograd(x.contiguous(), None, None, dist.group.WORLD)

    def forward(self, x, balance=False):
        tokens = x.reshape(-1, x.size(-1))
        probabilities = self.router(tokens).softmax(-1)
        best, chosen = probabilities.topk(self.top_k)
        mix = torch.zeros_like(probabilities).scatter(1, chosen, best)
        places = torch.einsum("ne,nd->end", (mix > 0).to(x.dtype), tokens)
        came = self.traded(places).unflatten(0, (-1, len(self.experts)))
        made = torch.stack([expert(came[:, e].flatten(0, 1)) for e, expert in enumerate(self.experts)])
        made = made.unflatten(1, (len(came), -1)).transpose(0, 1).flatten(0, 1)
        return torch.einsum("end,ne->nd", self.traded(made), mix).view_as(x)


class ByGather(ForwardAlone):
    """All tokens on all ranks by an all-gather of autograd's: the router learns of all ranks' tokens, and not alone of
    its own; so the weights are this rank's, and experts' outputs come to it whole.
    """

    def forward(self, x, balance=False):
        tokens = x.reshape(-1, x.size(-1))
        every = all_gather_single_autograd(tokens.contiguous(), 0, dist.group.WORLD)
        made = torch.stack([expert(every) for expert in self.experts])  # (E/n, n N, D)
        every_made = all_gather_single_autograd(made.contiguous(), 0, dist.group.WORLD)  # (E, n N, D)
        outs = every_made.unflatten(1, (self.me.world_size, -1))[:, self.me.rank]
        probabilities = self.router(tokens).softmax(-1)
        weights, chosen = probabilities.topk(self.top_k)
        mix = torch.zeros_like(probabilities).scatter(1, chosen, weights)
        return torch.einsum("end,ne->nd", outs, mix).view_as(x)
