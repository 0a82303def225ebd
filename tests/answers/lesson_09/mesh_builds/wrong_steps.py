"""09.mesh: trainers that step otherwise than one process."""

from __future__ import annotations

import torch
import torch.distributed as dist
from answers.lesson_09.mesh_builds.earlier import AllStates
from answers.lesson_09.mesh_builds.final import Final

from course_lib.mine import courses
from course_lib.parallel.model import cut
from course_lib.parallel.tensor import parameter_placements, split_transformer


class ByTheCourse(courses.MyMeshTrainer):
    """The course's own, under another name."""


class LossAlone(Final):
    def step(self, tokens, targets, max_norm=None):
        return super().step(tokens, targets, max_norm)[0]


class NoParts(Final):
    def __init__(self, *given, **named):
        super().__init__(*given, **named)
        self.parts = list(self.parts.items())


class EvenPieces(Final):
    """As many pieces in each stage, instead of as many numbers."""

    def build(self, model):
        num_pieces, count = model.config.num_layers + 2, len(self.pipe)
        stages = [range(i * num_pieces // count, (i + 1) * num_pieces // count) for i in range(count)]
        if count == 2:
            stages = [range(1), range(1, num_pieces)]
        split_transformer(self.me, model, group=self.groups.group("tp"))
        self.stage = cut(model, stages)[self.here["pp"]]
        self.parts = dict(self.stage.named_parameters(remove_duplicate=False))
        self.dims = {name: getattr(one, "dim", None) for name, one in parameter_placements(self.stage).items()}


class WrongWayRound(Final):
    """Ranks of tp hold each other's slices."""

    def build(self, model):
        super().build(model)
        with torch.no_grad():
            for name, part in self.parts.items():
                if self.dims[name] is not None and self.mesh.size("tp") > 1:
                    pieces = [torch.empty_like(part) for _ in range(self.mesh.size("tp"))]
                    dist.all_gather(pieces, part.contiguous(), group=self.groups.group("tp"))
                    part.copy_(pieces[-1 - self.here["tp"]])


class OwnLosses(Final):
    def step(self, tokens, targets, max_norm=None):
        parts = len(targets)
        self.mine = None
        _, norm = super().step(tokens, targets, max_norm)
        return self.mine * self.num_shares * parts / parts, norm

    def forward_backward(self, tokens, targets):
        total = super().forward_backward(tokens, targets)
        whole = total.clone()
        for axis in ("pp", "tp"):
            dist.all_reduce(whole, group=self.groups.group(axis))
        self.mine = whole.item()
        return total


class LossOfEach(Final):
    """Each rank of tp adds its loss."""

    def forward_backward(self, tokens, targets):
        total = super().forward_backward(tokens, targets)
        dist.all_reduce(total, group=self.groups.group("tp"))
        return total


class LossOfDataAlone(Final):
    """The ranks of the first stage have nothing to tell."""

    def step(self, tokens, targets, max_norm=None):
        loss, norm = super().step(tokens, targets, max_norm)
        return (loss if self.here["pp"] == len(self.pipe) - 1 else 0.0), norm


class SumNotMean(Final):
    def reduce(self):
        super().reduce()
        self.shard.grad *= self.num_shares


class DividesTwice(Final):
    def reduce(self):
        super().reduce()
        self.shard.grad /= self.num_shares


class CopiesSummed(Final):
    def reduce(self):
        for name in self.learning:
            if self.dims[name] is None:
                dist.all_reduce(self.parts[name].grad, group=self.groups.group("tp"))
        super().reduce()


class GradientsPileUp(Final):
    def step(self, tokens, targets, max_norm=None):
        before = {name: self.parts[name].grad for name in self.learning}
        self.before = {name: one.clone() for name, one in before.items() if one is not None}
        return super().step(tokens, targets, max_norm)

    def reduce(self):
        for name, one in self.before.items():
            self.parts[name].grad += one
        super().reduce()


class PilesUpAndSums(AllStates):
    """What was summed is there in the next step, and summed again."""

    def step(self, tokens, targets, max_norm=None):
        self.optimizer.zero_grad = lambda: None
        return super().step(tokens, targets, max_norm)


class EachItsOwn(AllStates):
    """Gradients of its own rows alone."""

    def add_up(self):
        pass


class NotHandedOn(Final):
    """Each rank has the new numbers of its share alone."""

    def spread(self):
        own = self.flat(self.parts)
        self.own_share(own).copy_(self.shard)
        for name, piece in self.named(own).items():
            self.parts[name].copy_(piece)


class NeverWaits(Final):
    def reduce(self):
        super().reduce()
        self.sent = dist.all_reduce(torch.zeros(1), async_op=True)


class MicroBatchesAddUp(Final):
    def weight(self, target, targets):
        return super().weight(target, targets) * len(self.deal(targets))

    def forward_backward(self, tokens, targets):
        return super().forward_backward(tokens, targets) / len(self.deal(targets))


class ReceivesFirst(Final):
    """Every stage waits for the gradient of a micro-batch before it hands the next one on, the first one as well."""

    def forward_backward(self, tokens, targets):
        if len(self.pipe) > 1:
            x = torch.zeros(1, dtype=torch.float64)
            dist.recv(x, self.pipe[(self.here["pp"] + 1) % len(self.pipe)])
        return super().forward_backward(tokens, targets)


class AlongSlices(Final):
    """Whole weights are made equal along tp after each step, though they are."""

    def spread(self):
        super().spread()
        flat = self.flat(self.parts)
        dist.all_reduce(flat.clone(), group=self.groups.group("tp"))


class TwiceAlongStages(Final):
    """Each micro-batch is handed on twice."""

    def forward_backward(self, tokens, targets):
        if len(self.pipe) > 1:
            places = len(self.deal(tokens)[0]) * self.num_micro_batches * tokens.size(1)
            like = torch.zeros(places, self.config.width, dtype=torch.float64)
            dist.all_reduce(like, group=self.groups.group("pp"))
        return super().forward_backward(tokens, targets)


class WholeGradientToAll(Final):
    """A vector of the whole model's gradient is summed over all ranks to find its norm."""

    def square(self):
        whole = torch.zeros(20_000, dtype=torch.float64)
        dist.all_reduce(whole)
        return super().square()


class StatesOnAll(Final):
    """Every rank steps the whole vector, and sends what an all-reduce sends."""

    def own_share(self, vector):
        return vector

    def gathered(self, share):
        return share

    def reduce(self):
        whole = self.flat({name: self.parts[name].grad for name in self.learning})
        dist.all_reduce(whole, group=self.groups.group("dp_shard"))
        self.shard.grad = whole

    def square(self):
        return super().square() * (self.here["dp_shard"] == 0)


class SeedsForAll(Final):
    def step(self, tokens, targets, max_norm=None):
        torch.manual_seed(1)
        return super().step(tokens, targets, max_norm)
