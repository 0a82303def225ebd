"""10.ring: builds whose outputs or gradients are wrong, each in one way."""

from __future__ import annotations

import torch
from answers.lesson_10.ring_builds.final import ByJoin, Final

from course_lib.cluster import recv, send, start


class OwnKeysAlone(Final):
    def blocks(self, k, v):
        yield self.at, torch.stack([k, v])


class Averages(ByJoin):
    """Each block's output counts alike."""

    def nothing_seen(self, queries):
        return [*super().nothing_seen(queries), []]

    def join(self, state, mine, scores, values):
        out, lse, _ = state
        out[..., mine, :] += scores.softmax(-1) @ values / self.count
        lse[..., mine] = torch.logaddexp(lse[..., mine], scores.logsumexp(-1))

    def result(self, state):
        return state[:2]


class NeverRescales(Final):
    def join(self, state, mine, scores, values):
        sums, total, largest = state
        weights = (scores - scores.amax(-1, keepdim=True)).exp()
        sums[..., mine, :] += weights @ values
        total[..., mine] += weights.sum(-1)
        largest[..., mine] = torch.maximum(largest[..., mine], scores.amax(-1))


class NeverDivides(Final):
    def factor(self, q):
        return 1.0


class Overflows(Final):
    def join(self, state, mine, scores, values):
        sums, total, largest = state
        weights = scores.exp()
        sums[..., mine, :] += weights @ values
        total[..., mine] += weights.sum(-1)
        largest[..., mine] = 0.0


class StartsAtZero(Final):
    """The largest score so far begins at 0, so exponentials of scores far below it are all 0."""

    def nothing_seen(self, queries):
        return [torch.zeros_like(queries), *(torch.zeros_like(queries[..., 0]) for _ in range(2))]


class KeepsByShape(Final):
    def __call__(self, q, k, v):
        kept = self.__dict__.setdefault("kept", {})
        if q.shape not in kept:
            kept[q.shape] = super().__call__(q, k, v)
        return kept[q.shape]


class ScalesInPlace(Final):
    def forward(self, ctx, q, k, v):
        out = super().forward(ctx, q.clone(), k, v)
        q.mul_(self.factor(q))
        return out


class SetsASeed(Final):
    def __init__(self, *given):
        super().__init__(*given)
        torch.manual_seed(0)


class NeverWaits(Final):
    """What is sent is kept, and never waited for."""

    def pass_on(self, give, take):
        halves = [send(give, self.after)] if give.numel() else []
        self.__dict__.setdefault("begun", []).append(start(halves, group=self.group))
        return start([recv(take, self.before)] if take.numel() else [], group=self.group)


class LetsGo(Final):
    """What is sent is forgotten at once."""

    def pass_on(self, give, take):
        start([send(give, self.after)], group=self.group)
        return start([recv(take, self.before)], group=self.group)


class ReturnsAPair(Final):
    def __call__(self, q, k, v):
        return super().__call__(q, k, v), None


class NoCall:
    def __init__(self, *given):
        pass


class Narrow(Final):
    """All arithmetic is in float32, and the dtype of the output is right."""

    def widened(self, x):
        return x.float()


class NoGraph(Final):
    def __call__(self, q, k, v):
        return super().__call__(q, k, v).detach()


class OwnPartAlone(Final):
    def add(self, part, owner):
        pass


class Halves(Final):
    """What a query's weights together would grow is not taken off."""

    def part(self, grad_q, given, owner, block):
        return super().part(grad_q, (*given[:3], 0 * given[3]), owner, block)


class ScaledOnce(Final):
    """Scores are divided by the root, and their gradients are not."""

    def part(self, grad_q, given, owner, block):
        own = torch.zeros_like(grad_q)
        part = super().part(own, given, owner, block)
        grad_q += own / self.factor(given[0])
        part[0] /= self.factor(given[0])
        return part


class AtAnotherRank(Final):
    """The last sum is kept, and not sent home."""

    def add(self, part, owner):
        part = self.with_what_came(part)
        if owner == (self.at + 1) % self.count:
            self.last = part
            return
        self.coming = self.room(part, (owner - 1) % self.count)
        self.wait = self.pass_on(part, self.coming)

    def at_home(self, own):
        return self.__dict__.pop("last", own)


class NoNumber(ByJoin):
    """Whole blocks, masked: the softmax of a row of minus infinity."""

    def pairs(self, owner):
        mine = torch.tensor(self.positions[self.at])
        theirs = torch.tensor(self.positions[owner])
        mask = mine.unsqueeze(1) >= theirs if self.causal else False
        yield slice(None), slice(None), mask

    def join(self, state, mine, scores, values):
        out, lse = state
        found = scores.logsumexp(-1)
        both = torch.logaddexp(lse[..., mine], found)
        old, new = (lse[..., mine] - both).exp(), (found - both).exp()
        out[..., mine, :] = out[..., mine, :] * old[..., None] + new[..., None] * (scores.softmax(-1) @ values)
        lse[..., mine] = both


class MaskByPlace(Final):
    def pairs(self, owner):
        mine, theirs = torch.arange(self.sizes[self.at]), torch.arange(self.sizes[owner])
        yield slice(None), slice(None), mine.unsqueeze(1) >= theirs if self.causal else False


class OthersUnmasked(Final):
    def pairs(self, owner):
        yield slice(None), slice(None), self.causal and owner == self.at


class OneStretch(Final):
    """Whoever comes before in the ring has all its positions before."""

    def pairs(self, owner):
        if not self.causal or owner <= self.at:
            yield slice(None), slice(None), self.causal and owner == self.at


class ComputesAll(Final):
    """Whole blocks, masked."""

    def pairs(self, owner):
        return NoNumber.pairs(self, owner)


class MixesHeads(Final):
    """Heads of queries that share a key head stand M apart."""

    def grouped(self, q, k):
        return self.widened(q).unflatten(1, (-1, k.size(1))).transpose(1, 2)
