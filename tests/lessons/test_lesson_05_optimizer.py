"""Lesson 05's judge of a sharded optimizer against answers that the catalogue does not have."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from answers.lesson_05.wrong.optimizer_values import Sharded, packed, unpack
from torch import nn

from course_lib.learn import exercises
from course_lib.learn.checks.checking import judged
from course_lib.learn.exercises.lesson_05.optimizer.tries import sent_by_rings
from course_lib.meter import Call

pytestmark = pytest.mark.xdist_group("exercises")


def told(answer):
    """The verdict, and all that it says."""
    seen = judged(exercises.exercise("05.optimizer"), answer)
    return seen, f"{seen.evidence} {seen.message} {seen.details}"


class ByHandAndWhole(Sharded):
    """The formulas of AdamW, for all numbers on every rank."""

    def start(self):
        self.num_steps = 0
        self.first = torch.zeros_like(packed(self.parameters, 1))
        self.second = torch.zeros_like(self.first)

    @torch.no_grad()
    def step(self):
        gradient, weights = packed([p.grad for p in self.parameters], 1), packed(self.parameters, 1)
        dist.all_reduce(gradient)
        gradient /= self.me.world_size
        self.num_steps += 1
        self.first.lerp_(gradient, 0.1)
        self.second.lerp_(gradient**2, 0.001)
        first = self.first / (1 - 0.9**self.num_steps)
        second = self.second / (1 - 0.999**self.num_steps)
        unpack(weights * (1 - 0.01 * self.lr) - self.lr * first / (second.sqrt() + 1e-8), self.parameters)


class WithoutCorrection(Sharded):
    def start(self):
        super().start()
        self.adamw = self
        self.first, self.second = torch.zeros_like(self.own.data), torch.zeros_like(self.own.data)

    def step(self):
        with torch.no_grad():
            gradient = self.reduced(self.gradients())
            self.first.lerp_(gradient, 0.1)
            self.second.lerp_(gradient**2, 0.001)
            self.own.mul_(1 - 0.01 * self.lr).sub_(self.lr * self.first / (self.second.sqrt() + 1e-8))
            unpack(self.gathered(self.own.detach()), self.parameters)


class RankZeroAloneSteps(Sharded):
    def start(self):
        super().start()
        if self.me.rank:
            self.adamw = torch.optim.SGD([self.own], lr=0.0)


class GathersByAllReduce(Sharded):
    def gathered(self, own):
        row = own.new_zeros(self.me.world_size * len(own))
        self.part_of(row).copy_(own)
        dist.all_reduce(row)
        return row


class FreezesWhatItWasGiven(Sharded):
    def gathered(self, own):
        for parameter in self.parameters:
            parameter.requires_grad_(False)
        return super().gathered(own)


class KeepsAWindow(Sharded):
    """No ``clone()``: the part is a window on the row of everything, which stays with it."""

    def start(self):
        self.own = nn.Parameter(self.part_of(packed(self.parameters, self.me.world_size)))
        self.adamw = torch.optim.AdamW([self.own], lr=self.lr)


class InShorterNumbers(Sharded):
    def reduced(self, gradients):
        return super().reduced(gradients.float()).double()


class AllStates(Sharded):
    """Reduces by parts, and steps on everything."""

    def start(self):
        self.adamw = torch.optim.AdamW(self.parameters, lr=self.lr)

    @torch.no_grad()
    def step(self):
        row = torch.zeros_like(self.gradients())
        self.part_of(row).copy_(self.reduced(self.gradients()))
        unpack(row, [p.grad for p in self.parameters])
        self.adamw.step()
        own = self.part_of(packed(self.parameters, self.me.world_size)).clone()
        unpack(self.gathered(own), self.parameters)


class PartOfTheNext(Sharded):
    """The weights of the next rank's part, and the gradients of its own."""

    def part_of(self, row):
        return row.chunk(self.me.world_size)[(self.me.rank + 1) % self.me.world_size]

    def reduced(self, gradients):
        part = torch.empty_like(self.part_of(gradients))
        dist.reduce_scatter_tensor(part, gradients)
        return part / self.me.world_size


class WaitsInTheNextStep(Sharded):
    work = None

    def step(self):
        if self.work is not None:
            self.work.wait()
            unpack(self.row, self.parameters)
        with torch.no_grad():
            self.own.grad = self.reduced(self.gradients())
            self.adamw.step()
            self.row = self.own.new_empty(self.me.world_size * len(self.own))
            self.work = dist.all_gather_into_tensor(self.row, self.own.detach(), async_op=True)


class WithoutAStep:
    def __init__(self, me, parameters, lr):
        self.parameters = list(parameters)


class GathersWithoutRank0(Sharded):
    def gathered(self, own):
        return super().gathered(own) if self.me.rank else self.gradients()


class OwnGroup(Sharded):
    def start(self):
        super().start()
        self.group = dist.new_group()


def long(*values):
    return pytest.param(*values, marks=pytest.mark.long)


@pytest.mark.long
@pytest.mark.parametrize(
    ("answer", "mistake", "words"),
    [
        (ByHandAndWhole, "keeps-something-whole", "as many numbers as 8.0 of its parts"),
        (WithoutCorrection, None, "the weights after step 1"),
        (RankZeroAloneSteps, None, "the weights after step 1"),  # and not "never gathers"
        (GathersByAllReduce, None, "sends 2.25 times the bytes of the gradients"),
        (FreezesWhatItWasGiven, None, "`parameters`[0] was left with requires_grad=False"),
        (KeepsAWindow, "keeps-something-whole", "as many numbers as 7.0 of its parts"),
        long(InShorterNumbers, None, "the weights after step 1"),
        long(AllStates, "states-of-everything", "8.0 of its parts"),
        long(PartOfTheNext, "parts-mixed-up", "the weights after step 1"),
        long(WaitsInTheNextStep, "not-waited", "and never waited for it"),
        (WithoutAStep, None, "is to give an object with a `step`; what came is"),
        long(OwnGroup, None, "made a process group by new_group and left it there"),
    ],
)
def test_wrong_optimizers_are_turned_away(answer, mistake, words):
    seen, said = told(answer)
    assert (seen.status, seen.mistake) == ("not yet", mistake), seen
    assert words in said, seen


def test_an_object_is_no_class():
    class R:
        rank, world_size = 0, 1

    seen, said = told(Sharded(R(), [nn.Parameter(torch.zeros(2))], 0.1))
    assert seen.status == "not yet"
    assert "Give the class itself" in said


@pytest.mark.long
def test_ranks_that_wait_for_one_that_does_not_come_are_told_so():
    seen, said = told(GathersWithoutRank0)
    assert seen.status in ("raised", "too slow"), seen
    assert "can never finish" in said, seen


@pytest.mark.long
def test_what_one_object_leaves_to_the_next_is_found():
    kept = []

    class Shared(Sharded):
        def start(self):
            super().start()
            kept.append((self.own, self.adamw))
            self.own, self.adamw = kept[0]

    seen, said = told(Shared)
    assert seen.mistake == "one-for-all-objects", seen
    assert "the weights of two models" in said, seen


def call(operation, size_bytes, sent_bytes, root=None):
    return Call(1, 1, operation, (0, 1, 2, 3), size_bytes, sent_bytes, 1, 0.0, None, None, None, root=root)


def test_a_reduce_scatter_counts_for_a_ring_of_its_own_and_not_for_gloos_all_reduce():
    assert sent_by_rings([call("reduce_scatter", 400, {2: 600})]) == 300
    assert sent_by_rings([call("all_gather", 100, {2: 300}), call("all_reduce", 400, {2: 600})]) == 900
    assert sent_by_rings([call("broadcast", 400, {}, root=0)]) == 400  # passed on by rank 1, in a chain
    assert sent_by_rings([call("broadcast", 400, {3: 400}, root=2)]) == 0  # rank 1 is the last of it
