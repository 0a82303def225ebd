"""10.ring: right builds that pass all steps, in several styles; the first has a method for each thing to go wrong."""

from __future__ import annotations

import torch
import torch.distributed as dist

from course_lib.cluster import recv, send, start


class Around(torch.autograd.Function):
    @staticmethod
    def forward(ctx, ring, q, k, v):
        return ring.forward(ctx, q, k, v)

    @staticmethod
    def backward(ctx, grad):
        return None, *ctx.ring.backward(ctx, grad)


class Final:
    """Blocks of keys and values in one message, a running maximum and sum, and sums of gradients behind the keys."""

    def __init__(self, me, positions, causal=False, group=None):
        self.me, self.positions, self.causal, self.group = me, positions, causal, group
        self.ranks = self.members(group)
        self.at, self.count = self.ranks.index(me.rank), len(self.ranks)
        self.before, self.after = self.ranks[self.at - 1], self.ranks[(self.at + 1) % self.count]
        self.sizes = [len(own) for own in positions]

    def members(self, group):
        return list(range(self.me.world_size)) if group is None else dist.get_process_group_ranks(group)

    def __call__(self, q, k, v):
        return Around.apply(self, q, k, v)

    # -- numbers ------------------------------------------------------------------------------------------------------

    def widened(self, x):
        return x.to(torch.promote_types(x.dtype, torch.float32))

    def grouped(self, q, k):
        """(B, H, T, .) -> (B, G, M, T, .)"""
        return self.widened(q).unflatten(1, (k.size(1), -1))

    def stretches(self, own):
        found = []
        for at, position in enumerate(own):
            if found and position == own[at - 1] + 1:
                found[-1][1] = slice(found[-1][1].start, at + 1)
            else:
                found.append([position, slice(at, at + 1)])
        return found

    def pairs(self, owner):
        for first, mine in self.stretches(self.positions[self.at]):
            for other, theirs in self.stretches(self.positions[owner]):
                if not self.causal or other <= first:
                    yield mine, theirs, self.causal and other == first

    def scores(self, q, k, mask):
        """``mask``: False, or True for a triangle, or which keys are seen."""
        scores = q @ k.mT * self.factor(q)
        if mask is True:
            mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril()
        return scores if mask is False else scores.masked_fill(~mask, -torch.inf)

    def factor(self, q):
        return q.size(-1) ** -0.5

    # -- messages -----------------------------------------------------------------------------------------------------

    def room(self, block, owner):
        return block.new_empty(*block.shape[:-2], self.sizes[owner], block.size(-1))

    def pass_on(self, give, take):
        both = [send(give, self.after), recv(take, self.before)]
        return start([one for one in both if one.tensor.numel()], group=self.group)

    def blocks(self, k, v):
        block = torch.stack([k, v])
        for step in range(self.count):
            arriving, wait = None, start([])
            if step < self.count - 1:
                arriving = self.room(block, (self.at - step - 1) % self.count)
                wait = self.pass_on(block, arriving)
            yield (self.at - step) % self.count, block
            wait()
            block = arriving

    # -- forward and backward -----------------------------------------------------------------------------------------

    def forward(self, ctx, q, k, v):
        queries = self.grouped(q, k)
        state = self.nothing_seen(queries)
        for owner, block in self.blocks(k, v):
            keys, values = self.widened(block).unsqueeze(3)
            for mine, theirs, mask in self.pairs(owner):
                scores = self.scores(queries[..., mine, :], keys[..., theirs, :], mask)
                self.join(state, mine, scores, values[..., theirs, :])
        out, lse = self.result(state)
        out = self.narrowed(out.flatten(1, 2), q)
        self.keep(ctx, q, k, v, out, lse)
        return out

    def narrowed(self, x, like):
        return x.to(like.dtype)

    def nothing_seen(self, queries):
        total = torch.zeros_like(queries[..., 0])
        return [torch.zeros_like(queries), total, torch.full_like(total, -torch.inf)]

    def join(self, state, mine, scores, values):
        sums, total, largest = state
        now = torch.maximum(largest[..., mine], scores.amax(-1))
        old, weights = (largest[..., mine] - now).exp(), (scores - now[..., None]).exp()
        sums[..., mine, :] = sums[..., mine, :] * old[..., None] + weights @ values
        total[..., mine] = total[..., mine] * old + weights.sum(-1)
        largest[..., mine] = now

    def result(self, state):
        sums, total, largest = state
        return sums / total[..., None], largest + total.log()

    def keep(self, ctx, q, k, v, out, lse):
        ctx.ring = self
        ctx.save_for_backward(q, k, v, out, lse)

    def backward(self, ctx, grad):
        q, k, v, out, lse = ctx.saved_tensors
        queries, grads, outs = (self.grouped(x, k) for x in (q, grad, out))
        given = queries, grads, lse, (grads * outs).sum(-1, keepdim=True)
        grad_q = torch.zeros_like(queries)
        self.begin_sums()
        for owner, block in self.blocks(k, v):
            part = self.part(grad_q, given, owner, block)
            if owner == self.at:
                own = part
            else:
                self.add(part, owner)
        own = self.at_home(own)
        return self.narrowed(grad_q.flatten(1, 2), q), *self.narrowed(own, k)

    def part(self, grad_q, given, owner, block):
        """This rank's part of the gradients of a block; those of its own queries are added up on the way."""
        queries, grads, lse, dots = given
        part = torch.zeros_like(self.widened(block))
        keys, values = self.widened(block).unsqueeze(3)
        for mine, theirs, mask in self.pairs(owner):
            query, key, grad = queries[..., mine, :], keys[..., theirs, :], grads[..., mine, :]
            weights = (self.scores(query, key, mask) - lse[..., mine, None]).exp()
            part[1][..., theirs, :] += (weights.mT @ grad).sum(2)
            weights = weights * (grad @ values[..., theirs, :].mT - dots[..., mine, :]) * self.factor(query)
            grad_q[..., mine, :] += weights @ key
            part[0][..., theirs, :] += (weights.mT @ query).sum(2)
        return part

    def begin_sums(self):
        self.coming, self.wait = None, start([])

    def add(self, part, owner):
        """Add what has come for this block, and send it on."""
        part = self.with_what_came(part)
        self.coming = self.room(part, (owner - 1) % self.count)
        self.wait = self.pass_on(part, self.coming)

    def with_what_came(self, part):
        self.wait()
        return part if self.coming is None else part + self.coming

    def at_home(self, own):
        own = self.with_what_came(own)
        del self.coming, self.wait
        return own


class ByJoin(Final):
    """Outputs and their log-sum-exp are joined, as in 10.join."""

    def nothing_seen(self, queries):
        return [torch.zeros_like(queries), torch.full_like(queries[..., 0], -torch.inf)]

    def join(self, state, mine, scores, values):
        out, lse = state
        found = scores.logsumexp(-1)
        both = torch.logaddexp(lse[..., mine], found)
        old, new = (lse[..., mine] - both).exp(), (scores - both[..., None]).exp()
        out[..., mine, :] = out[..., mine, :] * old[..., None] + new @ values
        lse[..., mine] = both

    def result(self, state):
        return tuple(state)


class TheOtherWay(Final):
    """Keys go to the rank before."""

    def __init__(self, *given):
        super().__init__(*given)
        self.before, self.after = self.after, self.before

    def blocks(self, k, v):
        block = torch.stack([k, v])
        for step in range(self.count):
            arriving, wait = None, start([])
            if step < self.count - 1:
                arriving = self.room(block, (self.at + step + 1) % self.count)
                wait = self.pass_on(block, arriving)
            yield (self.at + step) % self.count, block
            wait()
            block = arriving

    def add(self, part, owner):
        part = self.with_what_came(part)
        self.coming = self.room(part, (owner + 1) % self.count)
        self.wait = self.pass_on(part, self.coming)


class InTwoMessages(Final):
    """Keys and values each by themselves, by PyTorch's own calls."""

    def blocks(self, k, v):
        both = [k.contiguous(), v.contiguous()]
        for step in range(self.count):
            arriving, works = [None, None], []
            if step < self.count - 1:
                arriving = [self.room(one, (self.at - step - 1) % self.count) for one in both]
                works = self.begin(both, arriving)
            yield (self.at - step) % self.count, torch.stack(both)
            for work in works:
                work.wait()
            both = arriving

    def begin(self, give, take):
        halves = [dist.P2POp(dist.isend, one, self.after, group=self.group) for one in give if one.numel()]
        halves += [dist.P2POp(dist.irecv, one, self.before, group=self.group) for one in take if one.numel()]
        return dist.batch_isend_irecv(halves) if halves else []


class HeadByHead(Final):
    """Each head of queries takes its keys by an index, and products are matrices of a head."""

    def part(self, grad_q, given, owner, block):
        part = torch.zeros_like(self.widened(block))
        for head in range(block.size(2)):
            own = [one[:, head : head + 1] for one in given]
            found = super().part(grad_q[:, head : head + 1], own, owner, block[:, :, head : head + 1])
            part[:, :, head : head + 1] += found
        return part


class StraightHome(Final):
    """Each part of a gradient goes to the owner of the block in a message of its own."""

    def begin_sums(self):
        self.came, self.waits, self.step = [], [], 0

    def add(self, part, owner):
        self.step += 1
        source = (self.at + self.step) % self.count
        while len(self.waits) > 1:
            self.waits.pop(0)()
        room = part.new_empty(*part.shape[:-2], self.sizes[self.at], part.size(-1))
        both = [send(part, self.ranks[owner]), recv(room, self.ranks[source])]
        self.came.append(room)
        self.waits.append(start([one for one in both if one.tensor.numel()], group=self.group))

    def at_home(self, own):
        for wait in self.waits:
            wait()
        for room in self.came:
            own = own + room
        del self.came, self.waits
        return own
