"""Answers that keep or spoil state are refused, by the mistake's name."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from answers.lesson_04.wrong.overlap import leaves_when_all_are_there

from course_lib.authoring.bench.judging import kept_answers
from course_lib.learn import exercises
from course_lib.learn.checks.checking import judged
from course_lib.learn.exercises.lesson_04.gradients.wrong_answers import filled, learning
from course_lib.learn.exercises.lesson_08.gates.wrong_answers import gate, same

pytestmark = [pytest.mark.xdist_group("exercises"), pytest.mark.long]


def verdict(name, answer):
    return judged(exercises.exercise(name), answer)


def told(seen):
    return f"{seen.message} {seen.evidence} {seen.details}"


def right_of(name):
    return kept_answers.right_answers(name)[0]


def with_more(name, more):
    """The right answer, which does ``more(*what it was given)`` as well."""

    def answer(*given):
        value = right_of(name)(*given)
        more(*given)
        return value

    return answer


# -- what depends on a rank alone --------------------------------------------------------------------------------------


def by_who_has_none(last):
    def average(me, model):
        parameters = sorted(learning(model), key=lambda one: (one.grad is None) is last)
        filled(model)
        for parameter in parameters:
            dist.all_reduce(parameter.grad)
            parameter.grad /= me.world_size

    return average


def average_what_is_there(me, model):
    gradients = [one.grad for one in model.parameters() if one.grad is not None]
    flat = torch.cat([one.flatten() for one in gradients])
    dist.all_reduce(flat)
    parts = flat.split([one.numel() for one in gradients])
    for gradient, part in zip(gradients, parts, strict=True):
        gradient.copy_(part.view_as(gradient) / me.world_size)


# -- what is kept from one call to the next ----------------------------------------------------------------------------


def rings_once():
    def ring(me, tensor, done=[]):  # noqa: B006 - the mistake
        return tensor if done else done.append(1) or right_of("02.ring")(me, tensor)

    return ring


def rings_in_the_first_rooms():
    def ring(me, tensor, rooms=[]):  # noqa: B006 - the mistake
        total = right_of("02.ring")(me, tensor)
        if not rooms:
            rooms.append(torch.empty_like(tensor))
        rooms[0].copy_(total)
        return tensor

    return ring


def averages_once():
    def average(me, model, done=[]):  # noqa: B006 - the mistake
        if not done:
            done.append(1)
            right_of("04.gradients")(me, model)

    return average


def averages_each_model_once(me, model, seen={}):  # noqa: B006 - the mistake
    if id(model) not in seen:
        seen[id(model)] = model  # held, so that no other one gets its number
        right_of("04.gradients")(me, model)


# -- what is left behind -----------------------------------------------------------------------------------------------


def new_group(me, *given):
    dist.new_group(list(range(me.world_size)))


def in_a_group_of_its_own(me, buckets):
    finish = right_of("04.overlap")(me, buckets)

    def finish_and_leave():
        finish()
        new_group(me)

    return finish_and_leave


def finishes_and(more):
    def start_early(me, buckets):
        finish = right_of("04.overlap")(me, buckets)

        def finish_and_more():
            finish()
            for parameter in (parameter for bucket in buckets for parameter in bucket):
                more(parameter)

        return finish_and_more

    return start_early


def moves(how):
    def ring(me, tensor):
        total = right_of("02.ring")(me, tensor.clone())
        how(tensor, total)
        return tensor

    return ring


def set_data(tensor, total):
    tensor.data = total


def doubles(model, saved):
    for parameter in model.parameters():
        parameter.data = parameter.data.double()


def zeros_everywhere(model, *given):
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)


def sets_momentum(model, *given):
    model.norm.momentum = None


def alone_in_the_world(me, values):
    mean = right_of("00.mean")(me, values)
    object.__setattr__(me, "world_size", 1)
    return mean


# -- one all-reduce and no more ----------------------------------------------------------------------------------------


def gathers_and_adds(tensor):
    parts = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, tensor.contiguous())
    return torch.stack(parts).sum(dim=0)


def reduces_and_broadcasts(tensor):
    total = tensor.clone()
    dist.reduce(total, dst=0)
    dist.broadcast(total, src=0)
    return total


@pytest.mark.first_cases(2)
@pytest.mark.parametrize(
    ("name", "answer", "mistake", "words"),
    [
        ("04.gradients", by_who_has_none(last=True), "another-order", "in the model's order"),
        ("04.gradients", by_who_has_none(last=False), "another-order", "in the model's order"),
        ("04.gradients", average_what_is_there, "shorter-flat-tensor", "the flat tensor is shorter"),
        ("04.gradients", averages_once(), None, "a second step of the same model"),
        ("04.gradients", averages_each_model_once, None, "a second step of the same model"),
        ("02.ring", rings_once(), None, "a second call in the same process"),
        ("02.ring", rings_in_the_first_rooms(), None, "Something is kept from one call to the next"),
        (
            "02.ring",
            with_more("02.ring", new_group),
            None,
            "has made a process group by new_group and left it there",
        ),
        ("02.ring", moves(set_data), None, "has other memory now"),
        ("02.ring", moves(torch.Tensor.set_), None, "has other memory now"),
        (
            "04.overlap",
            in_a_group_of_its_own,
            None,
            "has made a process group by new_group and left it there",
        ),
        ("04.overlap", leaves_when_all_are_there, "trusts-what-is-there", "may be an old one"),
        (
            "04.overlap",
            finishes_and(lambda one: one.grad.requires_grad_()),
            None,
            "requires a gradient itself",
        ),
        (
            "03.load",
            with_more("03.load", lambda model, _: model._register_state_dict_hook(print)),
            None,
            "1 more hook",
        ),
        (
            "03.load",
            with_more("03.load", lambda model, _: model.register_load_state_dict_pre_hook(print)),
            None,
            "1 more hook",
        ),
        ("03.load", with_more("03.load", doubles), None, "was left in torch.float64"),
        (
            "01.accumulate",
            with_more("01.accumulate", lambda _, optimizer, __: optimizer.register_step_post_hook(print)),
            None,
            "`optimizer` was left with 1 more hook",
        ),
        ("01.accumulate", with_more("01.accumulate", zeros_everywhere), None, "`frozen` has got a .grad"),
        (
            "01.accumulate",
            with_more("01.accumulate", sets_momentum),
            None,
            "'norm.momentum' of `model` was left at",
        ),
        ("00.mean", alone_in_the_world, None, "changed `me`"),
        ("08.gates", gate(leave=(gathers_and_adds, same)), None, "called all_gather of"),
        ("08.gates", gate(enter=(same, gathers_and_adds)), None, "called all_gather of"),
        (
            "08.gates",
            gate(leave=(reduces_and_broadcasts, same)),
            None,
            "called reduce of 80 bytes, broadcast of",
        ),
    ],
)
def test_what_was_accepted_once_is_refused(name, answer, mistake, words):
    seen = verdict(name, answer)
    assert (seen.passed, seen.mistake) == (False, mistake), seen
    assert words in told(seen), seen


def test_a_rank_that_was_told_another_place_is_told_its_own_in_the_next_call():
    verdict("00.mean", alone_in_the_world)
    assert verdict("00.mean", right_of("00.mean"))
