"""08.split: short answers that pass the first steps, and no later one."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from answers.lesson_08.split_builds.final import Final

from course_lib.parallel.tensor import all_reduce_identity, identity_all_reduce


class BlocksAlone(Final):
    """Step 1: both matrices of the vocabulary are whole."""

    def dim(self, name):
        return None if "tokens" in name or "w_vocab" in name else super().dim(name)

    def found(self, tokens):
        return F.embedding(tokens, self.parts["stem.tokens.weight"])

    def stem(self, tokens):
        return self.found(tokens) + self.parts["stem.positions.weight"][: tokens.size(1)]

    def loss(self, tokens, targets):
        x = self.stem(tokens)
        for i in range(self.config.num_layers):
            x = x + self.attention(f"blocks.{i}.attention", self.norm(f"blocks.{i}.norm1", x))
            x = x + self.mlp(f"blocks.{i}.mlp", self.norm(f"blocks.{i}.norm2", x))
        logits = self.linear("head.w_vocab", self.norm("head.norm", x))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class WithoutPositions:
    """Steps 1 to 4: no positions, no dropout, sizes that divide, everybody."""

    def __init__(self, me, model):
        self.me, self.config = me, model.config
        self.parts = {}
        for name, whole in model.named_parameters():
            dim = Final.dim(self, name)
            part = whole.detach() if dim is None else whole.detach().chunk(me.world_size, dim)[me.rank]
            self.parts[name] = torch.nn.Parameter(part.to(me.device).contiguous().clone())

    def loss(self, tokens, targets):
        x = self.here(self.parts["stem.tokens.weight"], tokens)
        x = all_reduce_identity(self.me, x) + self.parts["stem.positions.weight"][: tokens.size(1)]
        for i in range(self.config.num_layers):
            for norm, region in (("norm1", self.attention), ("norm2", self.mlp)):
                x = x + region(f"blocks.{i}.", identity_all_reduce(self.me, self.norm(f"blocks.{i}.{norm}", x)))
        x = identity_all_reduce(self.me, self.norm("head.norm", x))
        return self.cross_entropy(F.linear(x, self.parts["head.w_vocab.weight"]), targets)

    def here(self, table, tokens):
        place = tokens - self.me.rank * len(table)
        is_here = (place >= 0) & (place < len(table))
        return F.embedding(place.clamp(0, len(table) - 1), table) * is_here[..., None]

    def norm(self, name, x):
        return F.layer_norm(x, x.shape[-1:], self.parts[f"{name}.weight"], self.parts.get(f"{name}.bias"))

    def columns(self, name, x):
        return F.linear(x, self.parts[f"{name}.weight"], self.parts.get(f"{name}.bias"))

    def rows(self, name, x):
        y = all_reduce_identity(self.me, F.linear(x, self.parts[f"{name}.weight"]))
        return y + self.parts[f"{name}.bias"] if f"{name}.bias" in self.parts else y

    def attention(self, name, x):
        q, k, v = (
            self.columns(f"{name}attention.{one}", x).unflatten(-1, (-1, self.config.head_dim)).transpose(1, 2)
            for one in ("w_q", "w_k", "w_v")
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.rows(f"{name}attention.w_out", y.transpose(1, 2).flatten(2))

    def mlp(self, name, x):
        return self.rows(f"{name}mlp.w_down", F.gelu(self.columns(f"{name}mlp.w_up", x)))

    def cross_entropy(self, logits, targets):
        largest = logits.detach().amax(-1)
        torch.distributed.all_reduce(largest, op=torch.distributed.ReduceOp.MAX)
        shifted = logits - largest[..., None]
        size = logits.size(-1)
        place = targets - self.me.rank * size
        is_here = (place >= 0) & (place < size)
        found = shifted.gather(-1, place.clamp(0, size - 1)[..., None])[..., 0] * is_here
        total = all_reduce_identity(self.me, shifted.exp().sum(-1))
        return (total.log() - all_reduce_identity(self.me, found)).mean()
