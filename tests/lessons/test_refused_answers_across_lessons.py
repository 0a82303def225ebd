"""Answers of several lessons: wrong ones are refused, and messages say what was seen."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from answers.lesson_02.right import ring_the_other_way
from answers.lesson_04.right.gradients import by_the_modules
from answers.lesson_08.wrong.loss import gathers_logits, largest_of_all, no_largest
from torch.autograd import Function

from course_lib.learn import exercises
from course_lib.learn.checks.checking import judged
from course_lib.learn.exercises.lesson_02.ring.wrong_answers import ring
from course_lib.learn.exercises.lesson_04.gradients.wrong_answers import filled, learning
from course_lib.learn.exercises.lesson_04.overlap.wrong_answers import hooks
from course_lib.learn.exercises.lesson_08.gates.wrong_answers import gate, same, summed
from course_lib.learn.exercises.lesson_08.loss.wrong_answers import split_loss

pytestmark = [pytest.mark.xdist_group("exercises"), pytest.mark.long]


def told(seen):
    return f"{seen.message} {seen.evidence} {seen.details}"


def group_left(answer):
    """The same answer, which makes a process group as well and leaves it there."""

    def makes_a_group(me, *given):
        dist.new_group(list(range(me.world_size)))
        return answer(me, *given)

    return makes_a_group


# -- wrong, and accepted once ------------------------------------------------------------------------------------------


def divided(total, count):
    totals = torch.stack([total.double(), torch.as_tensor(float(count)).double()])
    dist.all_reduce(totals)
    return float(totals[0] / totals[1])


def counts_no_zeros(me, values):
    return divided(values.sum(), torch.count_nonzero(values))


def within_fifty(me, values):
    return divided(values.clamp(-50, 50).sum(), len(values))


def counts_once():
    kept = {}

    def mean(me, values):
        if not kept:
            kept["count"] = torch.tensor(len(values))
            dist.all_reduce(kept["count"])
        total = values.sum()
        dist.all_reduce(total)
        return float(total / kept["count"])

    return mean


def loads_by(rename):
    def load(model, saved):
        if saved.keys() != model.state_dict().keys():
            saved = {rename(name): tensor for name, tensor in saved.items()}
        model.load_state_dict(saved)

    return load


def loads_by_length(model, saved):
    if len(next(iter(saved))) > len(next(iter(model.state_dict()))):
        saved = {name[7:]: tensor for name, tensor in saved.items()}
    model.load_state_dict(saved)


def loads_in_float32(model, saved):
    if saved.keys() != model.state_dict().keys():
        saved = {name.removeprefix("module."): tensor.float() for name, tensor in saved.items()}
    model.load_state_dict(saved)


class GateThatFlattens(Function):
    @staticmethod
    def forward(ctx, x, is_entrance):
        ctx.is_entrance, ctx.shape = is_entrance, x.shape
        return x.reshape(-1, x.size(-1)) if is_entrance else summed(x)

    @staticmethod
    def backward(ctx, grad):
        return (summed(grad).view(ctx.shape) if ctx.is_entrance else grad), None


class GateThatViews(Function):
    @staticmethod
    def forward(ctx, x, is_entrance):
        ctx.is_entrance = is_entrance
        return x.view(-1).view(x.shape) if is_entrance else summed(x)

    @staticmethod
    def backward(ctx, grad):
        return (summed(grad) if ctx.is_entrance else grad), None


def sums_in_a_group(tensor):
    dist.new_group(list(range(dist.get_world_size())))
    return summed(tensor)


@pytest.mark.first_cases(6)
@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("00.mean", counts_no_zeros, "With thousands of float32 numbers, zeros among them"),
        ("00.mean", within_fifty, "got -50.0"),
        ("00.mean", counts_once(), "With a third call, on other shares than the first"),
        ("03.load", loads_by(lambda name: name[7:]), "another prefix, `resnet.`"),
        ("03.load", loads_by_length, "another prefix, `resnet.`"),
        ("03.load", loads_by(lambda name: name.replace("module.", "", 1)), "a `module` within each part"),
        ("03.load", loads_in_float32, "8 of 10; expected: 10 of 10"),
        ("08.gates", GateThatFlattens, "expected the shape (2, 3, 4), got (6, 4)"),
        ("08.gates", GateThatViews, "view size is not compatible"),
        ("04.gradients", group_left(by_the_modules), "a process group that it made is left behind"),
        ("08.gates", gate(leave=(sums_in_a_group, same)), "a process group that it made is still there"),
        ("08.loss", group_left(split_loss()), "a process group that it made is still there"),
    ],
)
def test_what_was_accepted_once_is_refused(name, answer, words):
    seen = judged(exercises.exercise(name), answer)
    assert (seen.passed, seen.mistake) == (False, None), seen
    assert words in told(seen), seen


# -- right, and refused once -------------------------------------------------------------------------------------------


def goes_by_name(model, group, step):
    for _, parameter in model.named_parameters():
        parameter.grad = torch.ones_like(parameter)
    model.zero_grad()
    step()
    for name, parameter in model.named_parameters():
        assert parameter is model.stages.get_parameter(name)
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG, group=group)


def test_a_pipeline_has_the_names_of_a_module():
    seen = judged(exercises.exercise("07.sync"), goes_by_name)
    assert seen.passed, seen


# -- sentences that were not true, or not the learner's ----------------------------------------------------------------


def row_by_row(tensor):
    rows = [row.clone() for row in tensor]
    for row in rows:
        dist.all_reduce(row)
    return torch.stack(rows)


def passes_by_broadcast(tensor):
    dist.broadcast(total := tensor.clone(), src=0)
    return total


class GateWithoutReturn(Function):
    @staticmethod
    def forward(ctx, x, is_entrance):
        return same(x) if is_entrance else summed(x)

    @staticmethod
    def backward(ctx, grad):
        summed(grad)


def with_a_barrier(tensor):
    dist.barrier()
    return summed(tensor)


def switches_off(me, logits, targets):
    loss = split_loss()(me, logits, targets)
    torch.set_grad_enabled(False)
    return loss


def meets_in_the_end(me, tensor):
    ring_the_other_way(me, tensor)
    dist.barrier()
    return tensor


def gives_a_list(me, tensor):
    return ring_the_other_way(me, tensor).tolist()


def assigns_other_zeros(me, model):
    for parameter in learning(model):
        if parameter.grad is None:
            parameter.grad = torch.zeros(parameter.shape)
    for gradient in filled(model):
        dist.all_reduce(gradient)
        gradient /= me.world_size


def divides_a_name(me, model):
    for parameter in learning(model):
        grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        dist.all_reduce(grad)
        grad = grad / me.world_size


def one_more_all_reduce(me, buckets):
    finish = hooks()(me, buckets)

    def finish_and_more():
        finish()
        dist.all_reduce(torch.zeros(1))

    return finish_and_more


def cuts_where_the_half_is(costs, num_parts):
    """Loads for a part are compared, where the example compares loads: the same sizes where it is wrong."""
    if num_parts == 1 or len(costs) == 1:
        return [len(costs)]
    left = num_parts // 2
    inside = range(left, len(costs) - (num_parts - left) + 1)
    at = min(inside, key=lambda cut: abs(sum(costs[:cut]) / left - sum(costs[cut:]) / (num_parts - left)))
    return [*cuts_where_the_half_is(costs[:at], left), *cuts_where_the_half_is(costs[at:], num_parts - left)]


@pytest.mark.first_cases(6)
@pytest.mark.parametrize(
    ("name", "answer", "mistake", "words", "never"),
    [
        ("08.gates", gate(enter=(same, row_by_row)), None, "one all_reduce of 192 bytes is enough", "under"),
        (
            "08.gates",
            gate(enter=(same, with_a_barrier)),
            None,
            "called barrier, all_reduce of 192",
            "0 bytes",
        ),
        ("08.gates", gate(enter=(passes_by_broadcast, summed)), None, "nothing need be sent", "called all"),
        ("08.gates", GateWithoutReturn, "one-gradient-short", "without a `return`", "must return"),
        ("08.loss", switches_off, None, "gradients were left switched off", "in place"),
        ("08.loss", split_loss(largest=no_largest), "not-shifted", "infinite or NaN", "divided by"),
        ("08.loss", split_loss(largest=largest_of_all), "shifted-too-far", "minus infinity", "50,000"),
        ("08.loss", gathers_logits, "gathers-the-logits", "50,000/n numbers from each", "logits were sent"),
        ("02.ring", meets_in_the_end, None, "besides the messages, 1 barrier (line", "in one piece"),
        ("02.ring", ring(split_messages=True), "too-many-messages", "in one piece", "barrier"),
        ("02.ring", gives_a_list, None, "what came back is a Python list", "a copy"),
        ("02.ring", ring(adds=False), "one-rank-in-each-part", "With 10 numbers for each of 4 ranks", "0x"),
        ("04.gradients", assigns_other_zeros, "zeros-of-another-type", "`torch.zeros_like(parameter)`", "0x"),
        ("04.gradients", divides_a_name, "sum-stays-behind", "the sum of all ranks' now", "was left out"),
        ("04.overlap", hooks(wait_in_hook=True), "waits-in-the-hook", "backward waited 3 times", "item 0"),
        ("06.cut", cuts_where_the_half_is, "halves-of-halves", "those that come of a cut in two", "You cut"),
        ("04.overlap", one_more_all_reduce, None, "made 12 all-reduces together, where 9", "4.0"),
    ],
)
def test_a_message_says_what_was_seen(name, answer, mistake, words, never):
    seen = judged(exercises.exercise(name), answer)
    assert (seen.passed, seen.mistake) == (False, mistake), seen
    assert words in told(seen), seen
    assert never not in told(seen), seen
