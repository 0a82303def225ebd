"""10.ring: builds whose values are right, and which send, keep or wait more than they need."""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.distributed as dist
from answers.lesson_10.ring_builds.earlier import Waits, WithHandsFull
from answers.lesson_10.ring_builds.final import Final

from course_lib.parallel.context import ring_attention

__all__ = ["Waits", "WithHandsFull"]


class WithABarrier(Final):
    def backward(self, ctx, grad):
        dist.barrier(group=self.group)
        return super().backward(ctx, grad)


class GathersKeys(Final):
    """Keys by one all-gather; gradients go round."""

    def blocks(self, k, v):
        own = torch.stack([k, v])
        rooms = [self.room(own, owner) for owner in range(self.count)]
        dist.all_gather(rooms, own, group=self.group)
        for step in range(self.count):
            owner = (self.at - step) % self.count
            yield owner, rooms[owner]


class SendsRepeated(Final):
    """Every query head has its keys on the way."""

    def __call__(self, q, k, v):
        sharing = q.size(1) // k.size(1)
        return super().__call__(q, k.repeat_interleave(sharing, 1), v.repeat_interleave(sharing, 1))


class OneStepMore(Final):
    """The keys come home."""

    def blocks(self, k, v):
        block = torch.stack([k, v])
        for step in range(self.count):
            arriving = self.room(block, (self.at - step - 1) % self.count)
            wait = self.pass_on(block, arriving)
            yield (self.at - step) % self.count, block
            wait()
            block = arriving


class SendsQueries(Final):
    """Queries go round for nobody."""

    def forward(self, ctx, q, k, v):
        if self.count > 1:
            self.pass_on(q.contiguous(), torch.empty_like(q.contiguous()))()
        return super().forward(ctx, q, k, v)


class HeadsOneByOne(Final):
    """A message for each head of each sequence, of keys and of values."""

    def pass_on(self, give, take):
        pairs = zip(give.flatten(0, 2).unbind(0), take.flatten(0, 2).unbind(0), strict=True)
        begun = [Final.pass_on(self, one, room) for one, room in pairs]

        def wait():
            while begun:
                begun.pop()()

        return wait


class AllScores(Final):
    """The blocks are put together, and there is one softmax."""

    def forward(self, ctx, q, k, v):
        queries, found = self.grouped(q, k), []
        for owner, block in self.blocks(k, v):
            keys = self.widened(block[0]).unsqueeze(2)
            scores = queries.new_full((*queries.shape[:-1], keys.size(-2)), -torch.inf)
            for mine, theirs, mask in self.pairs(owner):
                scores[..., mine, theirs] = self.scores(queries[..., mine, :], keys[..., theirs, :], mask)
            found.append((scores, self.widened(block[1]).unsqueeze(2)))
        scores = torch.cat([one for one, _ in found], -1)
        out, begin = torch.zeros_like(queries), 0
        for step, (one, values) in enumerate(found):
            weights = scores.softmax(-1)[..., begin : begin + one.size(-1)]
            begin += one.size(-1)
            for mine, theirs, _ in self.pairs((self.at - step) % self.count):
                out[..., mine, :] += weights[..., mine, theirs] @ values[..., theirs, :]
        out = self.narrowed(out.flatten(1, 2), q)
        self.keep(ctx, q, k, v, out, scores.logsumexp(-1))
        return out


class KeepsScores(Final):
    """Weights stay until backward."""

    def forward(self, ctx, q, k, v):
        self.weights = []
        out = super().forward(ctx, q, k, v)
        ctx.weights = self.__dict__.pop("weights")
        return out

    def scores(self, q, k, mask):
        scores = super().scores(q, k, mask)
        if "weights" in self.__dict__:
            self.weights.append(scores)
        return scores


class LeavesTheLast(Final):
    def keep(self, ctx, q, k, v, out, lse):
        super().keep(ctx, q, k, v, out, lse)
        self.last = lse.clone(), out.clone()


class WaitsInBackward(Final):
    """Sums are waited for as soon as they were sent."""

    def add(self, part, owner):
        super().add(part, owner)
        self.wait()


class PartsAlike(Final):
    def room(self, block, owner):
        return torch.empty_like(block)


class LosesTheDtype(Final):
    def narrowed(self, x, like):
        return x


class CoarseSums(Final):
    def widened(self, x):
        return x


class AllLearn(Final):
    """It counts on a gradient for each of the three."""

    def forward(self, ctx, q, k, v):
        if any(ctx.needs_input_grad[1:]) and not all(ctx.needs_input_grad[1:]):
            raise RuntimeError("One of the differentiated Tensors does not require grad")
        return super().forward(ctx, q, k, v)


class Shared(Final):
    """Positions stand in the class."""

    kept: ClassVar = {}

    def __init__(self, me, positions, causal=False, group=None):
        super().__init__(me, positions, causal, group)
        Shared.kept["positions"] = positions

    def pairs(self, owner):
        self.positions = Shared.kept["positions"]
        return super().pairs(owner)


class Strangers(Final):
    """Neighbours by the ranks of the job."""

    def members(self, group):
        return list(range(self.me.world_size))


class TwoAtLeast(Final):
    def __init__(self, me, positions, causal=False, group=None):
        super().__init__(me, positions, causal, group)
        if me.world_size == 1:
            raise ValueError("no neighbour")


class ByTheCourse:
    def __init__(self, me, positions, causal=False, group=None):
        from course_lib.layouts import DocumentCut

        self.me, self.causal, self.group = me, causal, group
        self.cut = DocumentCut([sum(map(len, positions))], positions)

    def __call__(self, q, k, v):
        return ring_attention(self.me, q, k, v, self.cut, is_causal=self.causal, group=self.group)
