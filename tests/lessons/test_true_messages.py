"""Right answers of other styles pass, and each sentence of a verdict is true."""

from __future__ import annotations

import time

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from answers.lesson_04.wrong.gradients import skips_none
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from course_lib.authoring.bench.judging import kept_answers
from course_lib.cluster import exchange, recv, send
from course_lib.learn import exercises
from course_lib.learn.checks.checking import judged
from course_lib.learn.exercises.lesson_04.gradients.wrong_answers import learning
from course_lib.learn.exercises.lesson_04.overlap.wrong_answers import hooks
from course_lib.learn.exercises.lesson_08.gates.wrong_answers import summed
from course_lib.learn.judging.failure import shortened

pytestmark = [pytest.mark.xdist_group("exercises"), pytest.mark.long]


def verdict(name, answer):
    return judged(exercises.exercise(name), answer)


def told(seen):
    return f"{seen.message} {seen.evidence} {seen.details}"


def right_of(name):
    return kept_answers.right_answers(name)[0]


# -- right, and refused once -------------------------------------------------------------------------------------------


def gate_differentiable_once():
    """Made in a function, as in a cell: it travels by its text and not by its name."""

    class GateDifferentiableOnce(Function):
        @staticmethod
        def forward(ctx, x, is_entrance):
            ctx.is_entrance = is_entrance
            return x.view_as(x) if is_entrance else summed(x)

        @staticmethod
        @once_differentiable
        def backward(ctx, grad):
            return (summed(grad) if ctx.is_entrance else grad), None

    return GateDifferentiableOnce


def accumulates_in_a_closure(model, optimizer, pieces):
    count = sum(len(x) for x, _ in pieces)

    def closure():
        optimizer.zero_grad()
        for x, y in pieces:
            (F.cross_entropy(model(x), y, reduction="sum") / count).backward()

    optimizer.step(closure)


def divides_in_a_hook_of_the_step(model, optimizer, pieces):
    count = sum(len(x) for x, _ in pieces)

    def divide(*_):
        for parameter in learning(model):
            parameter.grad /= count

    optimizer.zero_grad()
    hook = optimizer.register_step_pre_hook(divide)
    for x, y in pieces:
        F.cross_entropy(model(x), y, reduction="sum").backward()
    optimizer.step()
    hook.remove()


def counts_on_the_parameters(me, buckets):
    for parameter in (parameter for bucket in buckets for parameter in bucket):
        parameter.is_in_a_bucket = True
    return hooks()(me, buckets)


@pytest.mark.first_cases(2)
@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("08.gates", gate_differentiable_once()),
        ("01.accumulate", accumulates_in_a_closure),
        ("01.accumulate", divides_in_a_hook_of_the_step),
        ("04.overlap", counts_on_the_parameters),
    ],
)
def test_a_right_answer_that_was_refused_once_passes(name, answer):
    assert verdict(name, answer)


# -- sentences that were not true, or not the learner's ----------------------------------------------------------------


class GateWithoutBackward(Function):
    @staticmethod
    def forward(ctx, x, is_entrance):
        return x.view_as(x) if is_entrance else summed(x)

    @staticmethod
    def bacward(ctx, grad):
        return grad, None


class GateThatGivesAList(gate_differentiable_once()):
    @staticmethod
    def backward(ctx, grad):
        return [summed(grad) if ctx.is_entrance else grad, None]


def for_three_at_most(me, values):
    if me.world_size > 1:
        raise NotImplementedError("more than three ranks")
    return float(values.mean())


def yields_the_mean(me, values):
    yield right_of("00.mean")(me, values)


def gives_what_cannot_travel(me, values):
    return (number for number in [right_of("00.mean")(me, values)])


def registers_twice(me, buckets):
    right_of("04.overlap")(me, buckets)
    return right_of("04.overlap")(me, buckets)


def finishes_and(more):
    def start_early(me, buckets):
        finish = right_of("04.overlap")(me, buckets)

        def finish_and_more():
            finish()
            for parameter in (parameter for bucket in buckets for parameter in bucket):
                more(parameter)

        return finish_and_more

    return start_early


def learns(parameter):
    parameter.data -= 0.1 * parameter.grad


def waits_for_the_last(me, buckets):
    under_way, left = [], [len(bucket) for bucket in buckets]

    def begin(number):
        left[number] -= 1
        if not left[number]:
            left[number] = len(buckets[number])
            flat = torch.cat([parameter.grad.flatten() for parameter in buckets[number]])
            under_way.append((dist.all_reduce(flat, async_op=True), flat, buckets[number]))

    for number, bucket in enumerate(buckets):
        for parameter in bucket:
            parameter.register_post_accumulate_grad_hook(lambda _, number=number: begin(number))

    def finish():
        under_way[-1][0].wait()
        for _, flat, bucket in under_way:
            time.sleep(0.05)
            parts = flat.split([parameter.numel() for parameter in bucket])
            for parameter, part in zip(bucket, parts, strict=True):
                parameter.grad.copy_(part.view_as(parameter) / me.world_size)
        under_way.clear()

    return finish


def freezes_after(model, group, step):
    right_of("07.sync")(model, group, step)
    for parameter in model.parameters():
        parameter.requires_grad_(False)


def gathers_objects(model, group, step):
    step()
    mine = [parameter.grad for parameter in model.parameters()]
    every = [None] * dist.get_world_size(group)
    dist.all_gather_object(every, mine, group=group)
    for place, parameter in enumerate(model.parameters()):
        parameter.grad = torch.stack([one[place] for one in every]).mean(dim=0)


def refuses_in_silence(model, saved):
    bare = {name.removeprefix("module."): tensor for name, tensor in saved.items()}
    names = model.state_dict().keys()
    fitting = next((state for state in (saved, bare) if state.keys() == names), None)
    if fitting is not None:
        model.load_state_dict(fitting)
    return fitting is not None


def by_twos(model, optimizer, pieces):
    count = sum(len(x) for x, _ in pieces)
    optimizer.zero_grad()
    for at in range(0, len(pieces), 2):
        losses = [F.cross_entropy(model(x), y) * len(x) / count for x, y in pieces[at : at + 2]]
        torch.stack(losses).sum().backward()
    optimizer.step()


def rounds_down(costs, num_parts):
    return [len(costs) // num_parts] * num_parts


def gives_a_map(costs, num_parts):
    return map(int, right_of("06.cut")(costs, num_parts))


def takes_whole_numbers(me, tensor):
    rank, n = me.rank, me.world_size
    parts = tensor.tensor_split(n)
    for step in range(2 * (n - 1)):
        give, take = parts[(rank - step) % n], parts[(rank - step - 1) % n]
        room = torch.empty(len(take), dtype=torch.int64)
        exchange([send(give, (rank + 1) % n), recv(room, (rank - 1) % n)])
        take.copy_(take + room if step < n - 1 else room)
    return tensor


def zero_on_rank_1(me, logits, targets):
    loss = right_of("08.loss")(me, logits, targets)
    return loss if me.rank == 0 else torch.zeros(())


@pytest.mark.first_cases(7)
@pytest.mark.parametrize(
    ("name", "answer", "words", "never"),
    [
        ("08.gates", GateWithoutBackward, "has no `backward`", "stub"),
        ("08.gates", GateThatGivesAList, "so does a list", "Another number came"),
        ("00.mean", for_three_at_most, "NotImplementedError: more than three ranks", "stub"),
        ("00.mean", None, "without brackets", "stub"),
        ("08.between", None, "None was given, where a value", "brackets"),
        ("00.mean", yields_the_mean, "a generator: it has a `yield` in it", "cannot travel"),
        ("00.mean", gives_what_cannot_travel, "what your function returned on rank", "[0]"),
        ("04.overlap", registers_twice, "2 all-reduces had begun", "No all-reduce was waited for"),
        ("04.overlap", waits_for_the_last, "6 of 9 calls were never waited for", "No all-reduce"),
        ("04.overlap", finishes_and(learns), "has changed: at", "begin afresh"),
        (
            "04.overlap",
            finishes_and(lambda one: one.requires_grad_(False)),
            "left with requires_grad=False",
            "raised",
        ),
        ("07.sync", freezes_after, "`requires_grad` of a weight is not what it was", "raised"),
        ("07.sync", gathers_objects, "as objects they are pickled", "stub"),
        ("03.load", refuses_in_silence, "no error says so", "go through"),
        ("01.accumulate", by_twos, "than one piece needs", "whole batch"),
        ("06.cut", rounds_down, "does not share", "give parts of"),
        ("06.cut", gives_a_map, "got a map", "generator"),
        ("02.ring", takes_whole_numbers, "another dtype than the tensor", "before it was filled"),
        ("08.loss", zero_on_rank_1, "got torch.float32 (", "stub"),
    ],
)
def test_a_message_says_what_was_seen(name, answer, words, never):
    seen = verdict(name, answer)
    assert not seen.passed, seen
    assert words in told(seen), seen
    assert never not in told(seen), seen


def test_a_sentence_that_ends_in_a_question_has_no_stop_after_it_and_no_word_is_cut():
    seen = verdict("04.gradients", skips_none)
    assert "?." not in told(seen), seen
    assert shortened("word " * 100).replace(" ... ", " ").split() == ["word"] * 58
