"""08.split: right answers to all steps, each in a style of its own; wrong ones are made of these."""

from __future__ import annotations

import contextlib

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from course_lib.layouts.row_partition import split_sizes
from course_lib.parallel.tensor import (
    all_gather_reduce_scatter,
    all_reduce_identity,
    identity_all_reduce,
    reduce_scatter_all_gather,
    split_all_gather,
)

CUT = {**dict.fromkeys(("tokens", "w_vocab", "w_q", "w_k", "w_v", "w_up"), 0), "w_out": 1, "w_down": 1}


class Final:
    """Functions on parts, and the course's gates."""

    def __init__(self, me, model, group=None, sequence=False):
        self.me, self.group, self.sequence, self.config = me, group, sequence, model.config
        ranks = list(range(me.world_size)) if group is None else dist.get_process_group_ranks(group)
        self.place, self.count = ranks.index(me.rank), len(ranks)
        for heads in (model.config.num_heads, model.config.kv_heads):
            if heads % self.count:
                raise ValueError(f"{heads} heads do not divide among {self.count} ranks")
        self.p = model.config.dropout if model.training else 0.0
        self.parts = self.cut(model)

    def cut(self, model):
        made = {}
        named = list(model.named_parameters(remove_duplicate=False))
        for name, whole in named:
            if id(whole) not in made:
                part = self.own(name, whole.detach()).to(self.me.device)
                made[id(whole)] = nn.Parameter(part, requires_grad=whole.requires_grad)
        return {name: made[id(whole)] for name, whole in named}

    def dim(self, name):
        layer, kind = name.split(".")[-2:]
        dim = CUT.get(layer)
        return None if kind == "bias" and dim == 1 else dim

    def own(self, name, whole):
        dim = self.dim(name)
        if dim is None:
            return whole.clone()
        return whole.split(split_sizes(whole.size(dim), self.count), dim)[self.place].contiguous().clone()

    # -- gates ---------------------------------------------------------------------------------------------------------

    def enter(self, x):
        if self.sequence:
            return all_gather_reduce_scatter(self.me, x, dim=1, group=self.group)
        return identity_all_reduce(self.me, x, group=self.group)

    def leave(self, x):
        if self.sequence:
            return reduce_scatter_all_gather(self.me, x, dim=1, group=self.group)
        return all_reduce_identity(self.me, x, group=self.group)

    def shared(self, name):
        """What all ranks hold; where each uses it on its own positions, gradients are summed."""
        part = self.parts.get(name)
        if part is None or not self.sequence:
            return part
        return identity_all_reduce(self.me, part, group=self.group)

    # -- random numbers ------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def own_numbers(self):
        seed = int(torch.randint(2**62, ()))
        devices = [] if self.me.device.type == "cpu" else [self.me.device]
        with torch.random.fork_rng(devices):
            torch.manual_seed(seed + self.place)
            yield

    def dropped(self, x):
        if not self.p:
            return x
        with self.own_numbers() if self.sequence else contextlib.nullcontext():
            return F.dropout(x, self.p)

    # -- the model -----------------------------------------------------------------------------------------------------

    def loss(self, tokens, targets):
        if self.sequence and tokens.size(1) % self.count:
            raise ValueError(f"{tokens.size(1)} positions do not divide among {self.count} ranks")
        x = self.stem(tokens)
        for i in range(self.config.num_layers):
            x = x + self.attention(f"blocks.{i}.attention", self.norm(f"blocks.{i}.norm1", x))
            x = x + self.mlp(f"blocks.{i}.mlp", self.norm(f"blocks.{i}.norm2", x))
        x = self.enter(self.norm("head.norm", x))
        return self.cross_entropy(self.linear("head.w_vocab", x), targets)

    def stem(self, tokens):
        positions = self.parts["stem.positions.weight"][: tokens.size(1)]
        if self.sequence:
            positions = split_all_gather(self.me, positions, dim=0, group=self.group)
        return self.dropped(self.leave(self.found(tokens)) + positions)

    def found(self, tokens):
        place, is_here = self.here(tokens)
        vectors = F.embedding(place, self.parts["stem.tokens.weight"])
        return torch.where(is_here[..., None], vectors, 0.0)

    def here(self, tokens):
        sizes = split_sizes(self.config.vocab_size, self.count)
        place = tokens - sum(sizes[: self.place])
        is_here = (place >= 0) & (place < sizes[self.place])
        return torch.where(is_here, place, 0), is_here

    def norm(self, name, x):
        return F.layer_norm(x, x.shape[-1:], self.shared(f"{name}.weight"), self.shared(f"{name}.bias"))

    def linear(self, name, x):
        return F.linear(x, self.parts[f"{name}.weight"], self.parts.get(f"{name}.bias"))

    def rows(self, name, x):
        y = self.leave(F.linear(x, self.parts[f"{name}.weight"]))
        bias = self.shared(f"{name}.bias")
        return self.dropped(y if bias is None else y + bias)

    def attention(self, name, x):
        x = self.enter(x)
        q, k, v = (
            self.linear(f"{name}.{one}", x).unflatten(-1, (-1, self.config.head_dim)).transpose(1, 2)
            for one in ("w_q", "w_k", "w_v")
        )
        with self.own_numbers() if self.p else contextlib.nullcontext():
            y = F.scaled_dot_product_attention(
                q, k, v, dropout_p=self.p, is_causal=True, enable_gqa=q.size(1) != k.size(1)
            )
        return self.rows(f"{name}.w_out", y.transpose(1, 2).flatten(2))

    def mlp(self, name, x):
        return self.rows(f"{name}.w_down", F.gelu(self.linear(f"{name}.w_up", self.enter(x))))

    def cross_entropy(self, logits, targets):
        largest = logits.detach().amax(-1)
        dist.all_reduce(largest, op=dist.ReduceOp.MAX, group=self.group)
        shifted = logits - largest[..., None]
        place, is_here = self.here(targets)
        target = torch.where(is_here, shifted.gather(-1, place[..., None])[..., 0], 0.0)
        sums = all_reduce_identity(self.me, torch.stack([shifted.exp().sum(-1), target]), group=self.group)
        return (sums[0].log() - sums[1]).mean()
