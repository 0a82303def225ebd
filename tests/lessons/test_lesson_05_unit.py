"""The judge of 05.unit against layers that its catalogue does not have, and the look at memory that it stands on."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.distributed as dist
from torch.autograd import Function

from course_lib.learn import exercises
from course_lib.learn.checks.checking import judged
from course_lib.learn.exercises.lesson_05.unit.memory import NOT_WHOLE, left_in_memory
from course_lib.learn.exercises.lesson_05.unit.wrong_answers import gathered, mean_rows, unit

pytestmark = pytest.mark.xdist_group("exercises")


def told(answer, *world_sizes):
    """The verdict, and all that it says. On two ranks alone, which is cheap, or on these."""
    exercise = exercises.exercise("05.unit")
    seen = judged(
        replace(exercise, judge=replace(exercise.judge, world_sizes=world_sizes or (2,), calls_again=False)),
        answer,
    )
    return seen, f"{seen.evidence} {seen.message} {seen.details}"


RIGHT = unit()


class ClosureOverTheWeight(RIGHT):
    @staticmethod
    def forward(ctx, x, shard):
        weight = gathered(shard)
        ctx.back, ctx.x = lambda grad: grad @ weight, x
        return x @ weight.T

    @staticmethod
    def backward(ctx, grad):
        return ctx.back(grad), mean_rows(grad.T @ ctx.x)


class KeepsTheOthersRows(RIGHT):
    """Less than the whole weight, and everything that it had to borrow."""

    @staticmethod
    def forward(ctx, x, shard):
        weight = gathered(shard)
        others = [
            part.clone() for rank, part in enumerate(weight.chunk(dist.get_world_size())) if rank != dist.get_rank()
        ]
        ctx.others = others
        ctx.save_for_backward(x, shard)
        return x @ weight.T


class KeepsFromBackward(RIGHT):
    @staticmethod
    def backward(ctx, grad):
        x, shard = ctx.saved_tensors
        ctx.weight = gathered(shard)
        return grad @ ctx.weight, mean_rows(grad.T @ x)


class KeepsOnTheClass(RIGHT):
    weights = {}  # noqa: RUF012 - the mistake itself

    @staticmethod
    def forward(ctx, x, shard):
        weight = KeepsOnTheClass.weights[len(KeepsOnTheClass.weights)] = gathered(shard)
        ctx.save_for_backward(x, shard)
        return x @ weight.T


class OverwritesTheShard(RIGHT):
    @staticmethod
    def backward(ctx, grad):
        x, shard = ctx.saved_tensors
        grad_x = grad @ gathered(shard)
        shard.detach().zero_()
        return grad_x, mean_rows(grad.T @ x)


class NoneForX(RIGHT):
    @staticmethod
    def backward(ctx, grad):
        x, _ = ctx.saved_tensors
        return None, mean_rows(grad.T @ x)


class NoBackward(Function):
    @staticmethod
    def forward(ctx, x, shard):
        return x @ gathered(shard).T


def first_two(shard):
    return gathered(shard)[: 2 * len(shard)]


def twice(shard):
    gathered(shard)
    return gathered(shard)


def next_ranks_rows(whole):
    return mean_rows(whole.roll(-len(whole) // dist.get_world_size(), dims=0))


@pytest.mark.long
@pytest.mark.parametrize(
    ("answer", "mistake", "words"),
    [
        (
            ClosureOverTheWeight,
            "keeps-the-whole-weight",
            "1152 bytes that it made are still there beside its output",
        ),
        (KeepsFromBackward, "holds-the-whole-gradient", "beside outputs and gradients"),
        (
            unit(product=lambda x, weight: x @ weight[: len(weight) // 2]),
            None,
            "mat1 and mat2 shapes cannot be multiplied",
        ),
        (unit(gather=twice), None, "one all-gather for each use is enough"),
        (OverwritesTheShard, None, "`shard` has changed"),
        (NoBackward, None, "has no `backward`"),
    ],
)
def test_wrong_layers_are_turned_away(answer, mistake, words):
    seen, said = told(answer)
    assert not seen.passed
    assert seen.mistake == mistake, seen
    assert words in said, seen


@pytest.mark.long
@pytest.mark.parametrize(
    ("answer", "mistake", "words"),
    [
        (NoneForX, None, "under 'the gradient of x'"),
        (KeepsOnTheClass, "keeps-the-whole-weight", "when forward is over"),
        (unit(reduce=next_ranks_rows), None, "under 'the gradient of shard'"),
        (unit(reduce=lambda whole: mean_rows(whole.float()).double()), None, "under 'the gradient of shard'"),
        (unit(product=lambda x, weight: (x @ weight.T, weight)), None, "a tuple of 2 tensors"),
        (lambda x, shard: x, None, "Give the class itself"),
        (torch.nn.Linear, None, "is an `nn.Module`"),
    ],
)
def test_more_wrong_layers_are_turned_away(answer, mistake, words):
    test_wrong_layers_are_turned_away(answer, mistake, words)


@pytest.mark.long
@pytest.mark.parametrize(
    ("answer", "world_size", "words"),
    [
        (unit(gather=first_two), 3, "under 'the output'"),  # right on two ranks
        pytest.param(  # on two ranks they are half a weight
            KeepsTheOthersRows, 4, "3456 bytes that it made are still there", marks=pytest.mark.long
        ),
    ],
)
def test_what_two_ranks_do_not_show_more_ranks_do(answer, world_size, words):
    assert told(answer)[0].passed
    seen, said = told(answer, world_size)
    assert not seen.passed
    assert words in said, seen


# -- the look at memory ------------------------------------------------------------------------------------------------


def left_by(apply):
    x, shard = torch.ones(1, 3, requires_grad=True), torch.ones(2, 3, requires_grad=True)
    handed = {"x": x, "shard": shard}
    return left_in_memory(
        lambda through, given: [through(given["x"], given["shard"])],
        apply,
        handed,
        handed,
        torch.sum,
        {"shard": 48},  # bytes, on two ranks
    )


def test_a_weight_that_is_saved_is_there_until_backward_is_over():
    left = left_by(lambda x, shard: x @ torch.cat([shard, shard]).T)  # a product keeps what it multiplied
    assert "48 bytes" in left.between
    assert left.after == NOT_WHOLE


def test_a_weight_that_has_gone_and_copies_of_rows_and_batch_are_not_a_whole_one():
    kept = []

    def apply(x, shard):
        kept.append(shard.detach().clone())
        return x.detach() @ torch.cat([shard, shard]).detach().T

    assert left_by(apply) == (NOT_WHOLE, NOT_WHOLE)


def test_an_emptied_weight_is_not_there():
    kept = []

    def apply(x, shard):
        weight = torch.cat([shard, shard]).detach()
        kept.append(weight)
        y = x.detach() @ weight.T  # autograd would read what is empty by then
        weight.untyped_storage().resize_(0)
        return y

    assert left_by(apply) == (NOT_WHOLE, NOT_WHOLE)


def test_a_gradient_that_is_a_view_of_the_whole_one_is_found():
    class Layer(Function):
        @staticmethod
        def forward(ctx, x, shard):
            return x @ torch.cat([shard, shard]).T

        @staticmethod
        def backward(ctx, grad):
            return None, (grad.T @ torch.ones(1, 3))[:2]

    left = left_by(Layer.apply)
    assert left.between == NOT_WHOLE
    assert "a view of a tensor of 48 bytes" in left.after


class OverwritesItsRows(RIGHT):
    """In place, with the same numbers: autograd minds it from the second use on."""

    @staticmethod
    def forward(ctx, x, shard):
        ctx.save_for_backward(x, shard)
        y = x @ gathered(shard).T
        shard.copy_(shard.clone())
        return y


def test_rows_that_forward_overwrites_are_told_by_autograd_and_not_as_kept_beside_ctx():
    seen, words = told(OverwritesItsRows)
    assert not seen.passed
    assert "modified by an inplace operation" in words
    assert "`ctx`" not in seen.message
