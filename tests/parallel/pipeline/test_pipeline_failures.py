"""A pipeline that cannot run says so in a sentence; a stage that raises is named, and the ranks go on afterwards."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from planted import Fails
from torch import nn

from course_lib.cluster import Rank, RankFailed
from course_lib.parallel.pipeline import Pipeline
from course_lib.schedules import Action, Schedule, gpipe, interleaved, one_f_one_b

pytestmark = pytest.mark.xdist_group("pipeline")


# -- refused before anything runs ----------------------------------------------------------------------------------


def alone(schedule=None, num_stages=2, rank=0, **options):
    me = Rank(rank, 2, torch.device("cpu"), "gloo")
    stages = [nn.Linear(5, 5) for _ in range(num_stages)]
    return Pipeline(me, stages, schedule or gpipe(2, 4), F.mse_loss, **options)


BACKWARD_FIRST = Schedule(
    "mine",
    1,
    (0, 1),
    ((Action("F", 0, 0), Action("B", 0, 0)), (Action("B", 1, 0), Action("F", 1, 0))),
)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"num_stages": 3},
            "3 stages on 2 ranks were given to the schedule 'GPipe', which has 2 stages on 2 ranks",
        ),
        ({"schedule": gpipe(4, 4), "num_stages": 4}, "4 stages on 2 ranks .* which has 4 stages on 4 ranks"),
        (
            {"schedule": interleaved(2, 4, 2)},
            "2 stages on 2 ranks .* has 4 stages on 2 ranks; give it as many",
        ),
        ({"schedule": BACKWARD_FIRST}, "rank 1.* runs B0 before its F0"),
        ({"ranks": [0]}, "2 stages on 1 ranks .* has 2 stages on 2 ranks"),
        ({"ranks": [1, 1]}, r"ranks=\[1, 1\] was given to rank 0; .* without ranks= is \[0, 1\]"),
        (
            {"ranks": [2, 3]},
            r"ranks=\[2, 3\] was given to rank 0; it must name every rank of a pipeline once",
        ),
    ],
)
def test_a_pipeline_that_cannot_be_is_refused_in_a_sentence(options, said):
    with pytest.raises(ValueError, match=said):
        alone(**options)


@pytest.mark.parametrize(
    ("rank", "x", "target", "said"),
    [
        (
            0,
            None,
            None,
            "rank 0 was given None as x; it needs at least one sample for each of the 4 micro-batches",
        ),
        (0, 3, None, "rank 0 was given 3 samples as x; it needs at least one .* 4 micro-batches of 'GPipe'"),
        (1, 8, None, "rank 1 was given None as the target"),
        (1, 8, 2, "rank 1 was given 2 samples as the target"),
    ],
)
def test_a_batch_that_micro_batches_cannot_share_is_refused(rank, x, target, said):
    x, target = (None if number is None else torch.ones(number, 5) for number in (x, target))
    with pytest.raises(ValueError, match=said):
        alone(rank=rank).step(x, target)


# -- a stage raises --------------------------------------------------------------------------------------------------


class Stage(nn.Linear):
    """Goes wrong in the way that it is told to."""

    def __init__(self, wrong=None):
        super().__init__(5, 5)
        self.wrong = wrong

    def forward(self, x):
        is_zero = not x.any()  # what it is tried out on
        if self.wrong == "try-out" or (self.wrong == "forward" and not is_zero):
            raise ArithmeticError("planted")
        if self.wrong == "in place":
            x += 1
        if self.wrong == "pair":
            return x, x
        if self.wrong == "dtype":
            return super().forward(x).to(torch.complex64)
        if self.wrong == "grows" and not is_zero:
            x = torch.cat([x, x])
        return Fails.apply(super().forward(x)) if self.wrong == "backward" else super().forward(x)


def step_with(me, stage, wrong, num_samples=8):
    """One step of four stages on two ranks, of which one goes wrong; returns what was left in gradients."""
    torch.manual_seed(0)
    stages = [Stage(wrong if number == stage else None) for number in range(4)]

    def loss_of(output, target):
        if stage == "loss":
            raise ArithmeticError("planted")
        return F.mse_loss(output, target)

    pipeline = Pipeline(me, stages, interleaved(2, 4, 2), loss_of)
    x = torch.ones(8, 5)
    pipeline.step(x, x[:num_samples])
    return sum(float(p.grad.abs().sum()) for p in pipeline.parameters())


@pytest.mark.first_cases(3)
@pytest.mark.limit_s(60)
@pytest.mark.parametrize(
    ("stage", "wrong", "said"),
    [
        (0, "forward", "stage 0 failed in the forward of micro-batch 0: ArithmeticError: planted"),
        (2, "forward", "stage 2 failed in the forward of micro-batch 0: ArithmeticError: planted"),
        (1, "backward", "stage 1 failed in the backward of micro-batch 0: ArithmeticError: planted"),
        (
            1,
            "try-out",
            "stage 1 failed in a trial on zeros of shape (2, 5), before the first micro-batch: ",
        ),
        ("loss", None, "stage 3 failed in the forward of micro-batch 0: ArithmeticError: planted"),
        (2, "in place", "stage 2 failed in a trial"),
        (1, "pair", "it returned a tuple; a stage gives the next one a single tensor"),
        (0, "dtype", "an activation of torch.complex64 with 2 dims cannot be passed on"),
        (2, "grows", "stage 2 has an activation of shape (4, 5)"),
    ],
)
def test_a_stage_that_fails_is_named_and_ends_all_ranks_which_then_go_on(two, stage, wrong, said):
    with pytest.raises(RankFailed) as told:
        two.call(step_with, (stage, wrong), show=False)
    assert said in str(told.value)
    assert told.value.rank == (3 if stage == "loss" else stage) % 2
    assert all(gradient > 0 for gradient in two.call(step_with, (None, None), show=False))


def test_the_ends_must_be_given_as_many_samples(two):
    with pytest.raises(
        RankFailed, match="the output has 2 samples and the target 1; give the ranks of the first and the"
    ):
        two.call(step_with, (None, None, 4), show=False)


def one_number(me):
    stages = [nn.Linear(5, 5), nn.Flatten(0)]
    pipeline = Pipeline(me, stages, gpipe(2, 2), lambda output, target: output.mean())
    pipeline.stages["1" if me.rank else "0"].register_forward_hook(lambda stage, x, y: y.mean() if me.rank else None)
    pipeline.step(torch.ones(4, 5), torch.ones(4, 5))


def test_an_output_of_one_number_is_refused(two):
    with pytest.raises(
        RankFailed,
        match=r"the output is a single number; loss_of needs an output with a row .* of shape \(2, 5\)",
    ):
        two.call(one_number, show=False)


def another_size(me):
    pipeline = Pipeline(me, [nn.Linear(5, 5), nn.Linear(5, 5)], one_f_one_b(2, 2), F.mse_loss)
    pipeline.step(torch.ones(4, 5), torch.ones(4, 5))
    pipeline.step(torch.ones(6, 5), torch.ones(6, 5))


@pytest.mark.limit_s(60)
def test_a_batch_of_another_size_is_refused_with_the_way_out(two):
    with pytest.raises(RankFailed) as told:
        two.call(another_size, show=False)
    assert told.value.rank == 0
    assert "stage 0 has an activation of shape (3, 5)" in str(told.value)
    assert "but in the first batch it announced an activation of shape (2, 5)" in str(told.value)
    assert "call forget_shapes() on every rank" in str(told.value)
