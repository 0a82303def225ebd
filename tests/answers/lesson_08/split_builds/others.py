"""08.split: right answers to all steps in other styles than ``Final``."""

from __future__ import annotations

import copy
import math

import torch
import torch.distributed as dist
import torch.nn.functional as F
from answers.lesson_08.split_builds.final import Final
from torch import nn

from course_lib.parallel.tensor import identity_all_reduce, split_all_gather


class Gate(torch.autograd.Function):
    """A pair of collectives of PyTorch's: what goes forward, and what goes back."""

    @staticmethod
    def forward(ctx, x, there, back):
        ctx.back = back
        return there(x)

    @staticmethod
    def backward(ctx, grad):
        return ctx.back(grad), None, None


class ByOwnGates(Final):
    """Gates of its own, by calls of torch.distributed alone."""

    def same(self, x):
        return x.view_as(x)

    def summed(self, x):
        total = x.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total, group=self.group)
        return total

    def gathered(self, x):
        parts = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(self.count)]
        dist.all_gather(parts, x.contiguous(), group=self.group)
        return torch.cat(parts, 1)

    def scattered(self, x):
        parts = [part.contiguous() for part in x.chunk(self.count, 1)]
        own = torch.empty_like(parts[0])
        dist.reduce_scatter(own, parts, group=self.group)
        return own

    def enter(self, x):
        return Gate.apply(x, *((self.gathered, self.scattered) if self.sequence else (self.same, self.summed)))

    def leave(self, x):
        return Gate.apply(x, *((self.scattered, self.gathered) if self.sequence else (self.summed, self.same)))


class Scores(torch.autograd.Function):
    """The loss with its gradient written down: softmax minus one."""

    @staticmethod
    def forward(ctx, logits, place, is_here, group):
        largest = logits.amax(-1)
        dist.all_reduce(largest, op=dist.ReduceOp.MAX, group=group)
        chances = (logits - largest[..., None]).exp()
        sums = chances.sum(-1)
        dist.all_reduce(sums, group=group)
        target = logits.gather(-1, place[..., None])[..., 0] * is_here
        dist.all_reduce(target, group=group)
        chances /= sums[..., None]
        ctx.save_for_backward(chances, place, is_here)
        return (sums.log() + largest - target).mean()

    @staticmethod
    def backward(ctx, grad):
        chances, place, is_here = ctx.saved_tensors
        found = chances.scatter_add(-1, place[..., None], -is_here.to(chances.dtype)[..., None])
        return found * (grad / place.numel()), None, None, None


class ByOwnLoss(ByOwnGates):
    """Three all-reduces of one number a position each; q, k and v by one product."""

    def cross_entropy(self, logits, targets):
        return Scores.apply(logits, *self.here(targets), self.group)

    def attention(self, name, x):
        layers = [f"{name}.{one}" for one in ("w_q", "w_k", "w_v")]
        sizes = [len(self.parts[f"{layer}.weight"]) for layer in layers]
        weight = torch.cat([self.parts[f"{layer}.weight"] for layer in layers])
        bias = (
            torch.cat([self.parts[f"{layer}.bias"] for layer in layers]) if f"{name}.w_q.bias" in self.parts else None
        )
        joined = F.linear(self.enter(x), weight, bias).split(sizes, -1)
        q, k, v = (one.unflatten(-1, (-1, self.config.head_dim)).transpose(1, 2) for one in joined)
        return self.mixed(name, q, k, v)

    def mixed(self, name, q, k, v):
        p = self.p
        if p:
            state = torch.get_rng_state()
            torch.manual_seed(int(torch.randint(2**40, ())) * 64 + self.place)
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=True, enable_gqa=q.size(1) != k.size(1))
        if p:
            torch.set_rng_state(state)
            torch.rand(())  # the next seed is another one
        return self.rows(f"{name}.w_out", y.transpose(1, 2).flatten(2))


class ByWholeMasks(Final):
    """Every rank draws the masks of all heads and positions, alike, and takes its own: as one device would."""

    def mask(self, *shape, like):
        return (torch.rand(shape) >= self.p).to(like) / (1 - self.p)

    def dropped(self, x):
        if not self.p:
            return x
        if not self.sequence:
            return x * self.mask(*x.shape, like=x)
        whole = self.mask(x.size(0), x.size(1) * self.count, x.size(2), like=x)
        return x * whole.chunk(self.count, 1)[self.place]

    def attention(self, name, x):
        x = self.enter(x)
        q, k, v = (
            self.linear(f"{name}.{one}", x).unflatten(-1, (-1, self.config.head_dim)).transpose(1, 2)
            for one in ("w_q", "w_k", "w_v")
        )
        if not self.p:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=q.size(1) != k.size(1))
            return self.rows(f"{name}.w_out", y.transpose(1, 2).flatten(2))
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
        weights = scores.masked_fill(later, -torch.inf).softmax(-1)
        batch, heads, length, _ = weights.shape
        whole = self.mask(batch, heads * self.count, length, length, like=weights)
        y = (weights * whole.chunk(self.count, 1)[self.place]) @ v
        return self.rows(f"{name}.w_out", y.transpose(1, 2).flatten(2))


class AModule(nn.Module):
    """A copy of the model whose weights are exchanged, with forwards of its own."""

    def __init__(self, me, model, group=None, sequence=False):
        super().__init__()
        self.tools = Final.__new__(Final)
        Final.__init__(self.tools, me, model, group, sequence)
        shell = copy.deepcopy(model).to("meta")
        self.tools.parts = self.parts = dict(self.tools.parts)
        for name in list(self.parts):
            path, _, last = name.rpartition(".")
            shell.get_submodule(path)._parameters[last] = self.parts[name]
        self.shell = shell

    def loss(self, tokens, targets):
        return self(tokens, targets)

    def forward(self, tokens, targets):
        tools, model = self.tools, self.shell
        if tools.sequence and tokens.size(1) % tools.count:
            raise ValueError(f"{tokens.size(1)} tokens among {tools.count} ranks")
        x = tools.stem(tokens)
        for number, block in enumerate(model.blocks):
            x = x + tools.attention(f"blocks.{number}.attention", self.normed(block.norm1, x))
            hidden = F.gelu(block.mlp.w_up(tools.enter(self.normed(block.norm2, x))))
            x = x + tools.rows(f"blocks.{number}.mlp.w_down", hidden)
        return tools.cross_entropy(model.head.w_vocab(tools.enter(self.normed(model.head.norm, x))), targets)

    def normed(self, norm, x):
        weight, bias = norm.weight, norm.bias
        if self.tools.sequence:
            weight, bias = (
                None if one is None else identity_all_reduce(self.tools.me, one, group=self.tools.group)
                for one in (weight, bias)
            )
        return F.layer_norm(x, norm.normalized_shape, weight, bias)


class InOneBuffer(Final):
    """What all ranks hold enters at once, at the beginning of a step; the stream has positions first."""

    def loss(self, tokens, targets):
        self.step = {}
        names = [name for name in self.parts if self.dim(name) is None and "positions" not in name]
        learning = [name for name in names if self.parts[name].requires_grad]
        if self.sequence and learning:
            flat = torch.cat([self.parts[name] for name in learning])
            flat = identity_all_reduce(self.me, flat, group=self.group)
            self.step = dict(zip(learning, flat.split([len(self.parts[name]) for name in learning]), strict=True))
        try:
            return super().loss(tokens, targets)
        finally:
            self.step = {}

    def shared(self, name):
        return self.step.get(name, self.parts.get(name))

    def stem(self, tokens):
        vectors = self.leave(self.found(tokens))
        positions = self.parts["stem.positions.weight"][None, : tokens.size(1)]
        if self.sequence:
            positions = split_all_gather(self.me, positions, dim=1, group=self.group)
        return self.dropped(vectors + positions)
