"""07.pipe: builds that are right for plain models, and fail for one kind that is not."""

from __future__ import annotations

import torch
from answers.lesson_07.pipe_builds.final import Final

from course_lib.parallel.pipeline import Pipeline


class OthersWait(Final):
    """An error leaves the loop at once."""

    def step(self, inputs=None, targets=None):
        self.begin(inputs, targets)
        earlier = self.set_tied_aside()
        for messages, action in self.moves:
            self.start(messages)
            if action is None:
                break
            self.pass_on(action, self.run(action, self.take(action)))
        for wait in self.waits.values():
            wait()
        self.add_tied(earlier)
        self.waits = self.here = None
        return self.loss()


class LosesTheError(Final):
    def run(self, action, given):
        try:
            return super().run(action, given)
        except ValueError:
            return None


class KeepsAFailedStep(Final):
    """Losses are taken out only where all went well."""

    def begin(self, inputs, targets):
        before = getattr(self, "losses", [])
        super().begin(inputs, targets)
        self.losses = before

    def loss(self):
        loss = super().loss()
        self.losses.clear()
        return loss


class CountsTiesTwice(Final):
    def set_tied_aside(self):
        return [None for _ in self.tied()]


class TiesApart(Final):
    def add_tied(self, earlier):
        for (weight, _), before in zip(self.tied(), earlier, strict=True):
            if before is not None:
                weight.grad = before + weight.grad


class AddsOnOneRank(Final):
    """Two places on one rank are added up as well."""

    def add_tied(self, earlier):
        super().add_tied(earlier)
        for places in self.ties:
            own = [self.stages[stage].get_parameter(name) for stage, name in places if stage in self.stages]
            if len(own) == 2:
                own[0].grad = own[0].grad + own[1].grad


class FrozenHaveNone(Final):
    def backward(self, stage, i, given):
        x, out = self.kept.pop((stage, i))
        out.backward(given)
        return self.gradient_of(x)


class FrozenHaveNoWeights(Final):
    """W of a frozen stage asks for the gradients of nothing."""

    def backward_weights(self, stage, i, given):
        out, given = self.later.pop((stage, i))
        torch.autograd.backward(out, given, inputs=self.weights_of(stage))


class CountsRowsAlike(Final):
    def share(self, i):
        return 1 / len(self.targets)


class OneDtype(Final):
    def make_room(self, stage, i):
        return self.room(stage, i).double()

    def pass_on(self, action, made):
        super().pass_on(action, None if made is None else made.double() if made.dim() else made)


class SharedStages(Final):
    """The stages belong to the class."""

    def __init__(self, me, stages, *others, **named):
        super().__init__(me, stages, *others, **named)
        del self.stages
        SharedStages.stages = stages


class TwoAtLeast(Final):
    def own_moves(self):
        others = {*range(self.schedule.num_ranks)} - {self.me.rank}
        self.nearest = min(others, key=lambda rank: abs(rank - self.me.rank))
        return super().own_moves()


class ByTheCourse:
    """With the course's runtime."""

    def __init__(self, me, stages, schedule, loss_of, room, ties=()):
        whole = [stages.get(stage, torch.nn.Identity()) for stage in range(schedule.num_stages)]
        self.pipeline = Pipeline(me, whole, schedule, loss_of)

    def step(self, inputs=None, targets=None):
        return self.pipeline.step(*(None if part is None else torch.cat(part) for part in (inputs, targets)))
