"""08.split: builds that differ from the model in a detail, or are right for the sizes of a first try alone."""

from __future__ import annotations

import math

import torch
import torch.distributed as dist
import torch.nn.functional as F
from answers.lesson_08.split_builds.final import Final
from answers.lesson_08.split_builds.wrong_values import identity_sum


class OtherEps(Final):
    def norm(self, name, x):
        return F.layer_norm(x, x.shape[-1:], self.shared(f"{name}.weight"), self.shared(f"{name}.bias"), eps=1e-6)


class GeluByTanh(Final):
    def mlp(self, name, x):
        hidden = F.gelu(self.linear(f"{name}.w_up", self.enter(x)), approximate="tanh")
        return self.rows(f"{name}.w_down", hidden)


class LastPositions(Final):
    """The last rows of the table, which are the first ones where a sequence fills the context."""

    def stem(self, tokens):
        whole = self.parts["stem.positions.weight"]
        self.parts = self.parts | {"stem.positions.weight": whole[-tokens.size(1) :]}
        try:
            return super().stem(tokens)
        finally:
            self.parts = self.parts | {"stem.positions.weight": whole}


class TwoBlocks(Final):
    """As many blocks as the page's model has."""

    def loss(self, tokens, targets):
        x = self.stem(tokens)
        for i in range(2):
            x = x + self.attention(f"blocks.{i}.attention", self.norm(f"blocks.{i}.norm1", x))
            x = x + self.mlp(f"blocks.{i}.mlp", self.norm(f"blocks.{i}.norm2", x))
        x = self.enter(self.norm("head.norm", x))
        return self.cross_entropy(self.linear("head.w_vocab", x), targets)


class BiasInShares(Final):
    """Each rank adds its n-th of the bias of a row cut: the loss is right, and the gradient is not."""

    def rows(self, name, x):
        bias = self.parts.get(f"{name}.bias")
        y = F.linear(x, self.parts[f"{name}.weight"], None if bias is None else bias / self.count)
        return self.dropped(self.leave(y))


class NoBiasOfColumns(Final):
    def linear(self, name, x):
        return F.linear(x, self.parts[f"{name}.weight"])


class OneLargest(Final):
    """One largest logit for all positions, in place of one for each."""

    def cross_entropy(self, logits, targets):
        largest = logits.detach().amax()
        dist.all_reduce(largest, op=dist.ReduceOp.MAX, group=self.group)
        shifted = logits - largest
        place, is_here = self.here(targets)
        target = torch.where(is_here, shifted.gather(-1, place[..., None])[..., 0], 0.0)
        sums = identity_sum(self, torch.stack([shifted.exp().sum(-1), target]))
        return (sums[0].log() - sums[1]).mean()


class LargestLearns(Final):
    """The largest logit is not detached."""

    def cross_entropy(self, logits, targets):
        largest = logits.amax(-1)
        dist.all_reduce(largest, op=dist.ReduceOp.MAX, group=self.group)
        shifted = logits - largest[..., None]
        place, is_here = self.here(targets)
        target = torch.where(is_here, shifted.gather(-1, place[..., None])[..., 0], 0.0)
        sums = identity_sum(self, torch.stack([shifted.exp().sum(-1), target]))
        return (sums[0].log() - sums[1]).mean()


class OwnScores(Final):
    """Attention by hand: the scores of all pairs of positions are kept for backward."""

    def attention(self, name, x):
        if self.p:
            return super().attention(name, x)
        x = self.enter(x)
        q, k, v = (
            self.linear(f"{name}.{one}", x).unflatten(-1, (-1, self.config.head_dim)).transpose(1, 2)
            for one in ("w_q", "w_k", "w_v")
        )
        k, v = (one.repeat_interleave(q.size(1) // one.size(1), 1) for one in (k, v))
        scores = q @ k.mT / math.sqrt(q.size(-1))
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
        y = scores.masked_fill(later, -torch.inf).softmax(-1) @ v
        return self.rows(f"{name}.w_out", y.transpose(1, 2).flatten(2))


# -- dropout -----------------------------------------------------------------------------------------------------------


class DropsBeforeTheBias(Final):
    def rows(self, name, x):
        y = self.dropped(self.leave(F.linear(x, self.parts[f"{name}.weight"])))
        bias = self.shared(f"{name}.bias")
        return y if bias is None else y + bias


class DropsAlongAlone(Final):
    """Outside attention nothing is dropped without `sequence`."""

    def dropped(self, x):
        return super().dropped(x) if self.sequence else x


class OneSeedAStep(Final):
    """A seed is drawn once a step, and set anew at each place."""

    def loss(self, tokens, targets):
        self.seed = int(torch.randint(2**61, ())) + self.place
        return super().loss(tokens, targets)

    def dropped(self, x):
        if not self.p or not self.sequence:
            return super().dropped(x)
        with torch.random.fork_rng([]):
            torch.manual_seed(self.seed)
            return F.dropout(x, self.p)
