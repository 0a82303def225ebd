"""07.pipe: builds whose values and messages are right, and which keep too much, or halve a backward wrongly."""

from __future__ import annotations

import torch
from answers.lesson_07.pipe_builds.final import Final


class GraphsStay(Final):
    def begin(self, inputs, targets):
        super().begin(inputs, targets)
        self.all = []

    def backward(self, stage, i, given):
        x, out = self.kept.pop((stage, i))
        self.all.append(out)
        if out.requires_grad:
            out.backward(given, retain_graph=True)
        return self.gradient_of(x)


class LossesKeepGraphs(Final):
    """The losses are added up with their graphs."""

    def forward(self, stage, i, given):
        made = super().forward(stage, i, given)
        if stage == self.last:
            self.losses[-1] = self.kept[stage, i][1]
        return made


class InputsStay(Final):
    def begin(self, inputs, targets):
        super().begin(inputs, targets)
        self.all = []

    def gradient_of(self, x):
        self.all.append(x)
        return super().gradient_of(x)


class WaitsAtTheEnd(Final):
    """Every send is waited for at the end of the step."""

    def has_arrived(self, *key):
        pass


class RoomsAtOnce(Final):
    def begin(self, inputs, targets):
        super().begin(inputs, targets)
        self.pool = {
            (kind, stage, i): self.room(stage, i)
            for kind in "FB"
            for stage in range(1, self.schedule.num_stages)
            for i in range(self.schedule.num_micro_batches)
        }

    def make_room(self, stage, i):
        return self.pool.pop(("F", stage, i), None) if ("F", stage, i) in self.pool else self.pool.pop(("B", stage, i))

    def loss(self):
        self.pool.clear()
        return super().loss()


class LeavesTheLast(Final):
    def gradient_of(self, x):
        self.latest = x
        return super().gradient_of(x)


# -- halves -----------------------------------------------------------------------------------------------------------


class WholeAtOnce(Final):
    def backward_inputs(self, stage, i, given):
        return self.backward(stage, i, given)

    def backward_weights(self, stage, i, given):
        pass


class BackAgain(Final):
    def backward_weights(self, stage, i, given):
        out, given = self.later.pop((stage, i))
        if out.requires_grad:
            out.backward(given)


class GraphIsGone(Final):
    def backward_inputs(self, stage, i, given):
        x, out = self.kept.pop((stage, i))
        self.later[stage, i] = out, given
        if not x.requires_grad:
            return None
        return torch.autograd.grad(out, x, given)[0]


class AsksTheInput(Final):
    """Also on the first stage."""

    def backward_inputs(self, stage, i, given):
        x, out = self.kept.pop((stage, i))
        self.later[stage, i] = out, given
        return torch.autograd.grad(out, x, given, retain_graph=True)[0]


class Replaces(Final):
    def backward_weights(self, stage, i, given):
        out, given = self.later.pop((stage, i))
        weights = self.weights_of(stage)
        if weights:
            for weight, gradient in zip(weights, torch.autograd.grad(out, weights, given), strict=True):
                weight.grad = gradient
