"""09.mesh: short trainers that pass an early step and no later one."""

from __future__ import annotations

import torch.distributed as dist
from answers.lesson_09.mesh_builds.final import Final

from course_lib.parallel.tensor import split_transformer, vocab_parallel_cross_entropy


class OnlySlices:
    """Step 1: data and slices, and no micro-batches."""

    def __init__(self, me, groups, model, optimizer_class, num_micro_batches=2, **defaults):
        self.me, self.groups, self.vocab_size = me, groups, model.config.vocab_size
        self.model = split_transformer(me, model, group=groups.group("tp"))
        self.parts = dict(self.model.named_parameters())
        self.optimizer = optimizer_class(self.model.parameters(), **defaults)

    def step(self, tokens, targets, max_norm=None):
        self.optimizer.zero_grad()
        group, slices = self.groups.group("dp_shard"), self.groups.group("tp")
        place, count = self.groups.coordinates["dp_shard"], self.groups.mesh.size("dp_shard")
        x, y = tokens.chunk(count)[place], targets.chunk(count)[place]
        loss = vocab_parallel_cross_entropy(self.me, self.model(x), y, vocab_size=self.vocab_size, group=slices) / count
        loss.backward()
        for part in self.parts.values():
            dist.all_reduce(part.grad, group=group)
        whole = loss.detach().clone()
        dist.all_reduce(whole, group=group)
        self.optimizer.step()
        return whole.item(), None

    def save(self, folder):
        pass

    def load(self, folder):
        pass


class AllStates(Final):
    """Step 2: every rank steps all of its parts, and nobody limits."""

    def __init__(self, me, groups, model, optimizer_class, num_micro_batches=2, **defaults):
        super().__init__(me, groups, model, optimizer_class, num_micro_batches, **defaults)
        self.optimizer = optimizer_class([p for p in self.parts.values() if p.requires_grad], **defaults)

    def step(self, tokens, targets, max_norm=None):
        self.optimizer.zero_grad()
        loss = self.forward_backward(tokens, targets)
        self.add_up()
        dist.all_reduce(loss)
        self.optimizer.step()
        return loss.item(), None

    def add_up(self):
        for name in self.learning:
            dist.all_reduce(self.parts[name].grad, group=self.groups.group("dp_shard"))


class GradientsToAll(Final):
    """Step 3: gradients of all go to all."""

    def reduce(self):
        whole = self.flat({name: self.parts[name].grad for name in self.learning})
        dist.all_reduce(whole, group=self.groups.group("dp_shard"))
        self.shard.grad = self.own_share(whole).clone()


class NoNorm(Final):
    """Step 4: there is no norm."""

    def step(self, tokens, targets, max_norm=None):
        loss, _ = super().step(tokens, targets)
        return loss, None


class NoCheckpoint(Final):
    """Step 5: nothing is saved."""

    def save(self, folder):
        pass

    def load(self, folder):
        pass


class PlainModels(Final):
    """Step 6: two ends of a pipeline are two matrices."""

    def add_ties(self):
        pass
