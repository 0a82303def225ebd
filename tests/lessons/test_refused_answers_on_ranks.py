"""Answers on ranks: wrong ones are refused, right ones pass, and messages use the learner's terms."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from answers.lesson_02.right import ring_the_other_way
from answers.lesson_04.right.accumulate import flag_in_time
from answers.lesson_04.right.gradients import by_the_modules
from torch import nn

from course_lib.cluster import exchange, recv, send
from course_lib.learn import exercises
from course_lib.learn.checks.checking import judged
from course_lib.learn.exercises.lesson_04.overlap.wrong_answers import hooks
from course_lib.learn.exercises.lesson_08.gates.wrong_answers import gate, same, summed
from course_lib.learn.exercises.lesson_08.mlp.wrong_answers import split_mlp
from course_lib.parallel.tensor import all_gather_split, all_reduce_identity

pytestmark = [pytest.mark.xdist_group("exercises"), pytest.mark.long]


def verdict(name, answer):
    return judged(exercises.exercise(name), answer)


def told(seen):
    return f"{seen.message} {seen.evidence} {seen.details}"


# -- right, and refused once -------------------------------------------------------------------------------------------


def means_in_halves(me, model):
    for parameter in model.parameters():
        if parameter.requires_grad:
            grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            flat = F.pad(grad.flatten(), (0, -grad.numel() % me.world_size))
            part = flat.new_empty(len(flat) // me.world_size)
            dist.reduce_scatter_tensor(part, flat)
            dist.all_gather_into_tensor(flat, part / me.world_size)
            parameter.grad = flat[: grad.numel()].view_as(parameter).clone()


def loss_by(largest, add_up=all_reduce_identity, more=0):
    """A split loss with the largest logits found so, sums added up so, and so many numbers sent for nothing."""

    def answer(me, logits, targets):
        shifted, size = logits - largest(logits.detach().amax(dim=1))[:, None], logits.size(1)
        place = targets - me.rank * size
        is_here = (place >= 0) & (place < size)
        found = shifted.gather(1, place.clamp(0, size - 1)[:, None])[:, 0]
        sums = add_up(me, torch.stack([shifted.exp().sum(dim=1), torch.where(is_here, found, 0.0)]))
        for _ in range(more):
            dist.all_reduce(is_here.double())
        return (sums[0].log() - sums[1]).mean()

    return answer


def largest_by_gather(largest):
    parts = [torch.empty_like(largest) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, largest)
    return torch.stack(parts).amax(dim=0)


def adds_up_by_gather(me, sums):
    return all_gather_split(me, sums[None], dim=0).sum(dim=0)


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("08.loss", loss_by(largest_by_gather)),
        ("08.loss", loss_by(largest_by_gather, adds_up_by_gather)),
        ("08.loss", loss_by(largest_by_gather, more=1)),
        ("04.gradients", means_in_halves),
    ],
)
def test_a_right_answer_that_was_refused_once_passes(name, answer):
    seen = verdict(name, answer)
    assert seen.passed, seen


# -- wrong, and accepted once ------------------------------------------------------------------------------------------


def sums_twice(tensor):
    dist.all_reduce(tensor.clone())
    return summed(tensor)


def steps_in_bfloat16(ddp, optimizer, pieces):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        flag_in_time(ddp, optimizer, pieces)


def reduces_to(rank):
    def report(me, loss):
        dist.reduce(loss, dst=rank)
        return f"mean loss {loss / me.world_size:.2f}" if me.rank == 0 else None

    return report


@pytest.mark.first_cases(2)
@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("08.loss", lambda *given: [loss_by(largest_by_gather)(*given)], "what came is a list of 1 tensor"),
        ("08.mlp", lambda *given: [split_mlp()(*given)], "what came is a list of 1 tensor"),
        ("08.mlp", lambda *given: (split_mlp()(*given),) * 2, "what came is a tuple of 2 tensors"),
        ("08.loss", loss_by(largest_by_gather, more=4), "this rank handed to collectives 7 numbers for each position"),
        ("08.gates", gate(leave=(sums_twice, same)), "all_reduce of 80 bytes, all_reduce of 80 bytes"),
        ("04.accumulate", steps_in_bfloat16, "a forward pass ran under autocast"),
        ("00.report", reduces_to(1), "with dst=1, `dist.reduce` gives the sum to rank 1 alone"),
    ],
)
def test_what_was_accepted_once_is_refused(name, answer, words):
    seen = verdict(name, answer)
    assert seen.status == "not yet", seen
    assert words in told(seen), seen


def reduces_and_sends_home(me, loss):
    last = min(1, me.world_size - 1)
    dist.reduce(loss, dst=last)
    if me.rank <= last and last:
        (dist.recv if me.rank == 0 else dist.send)(loss, 1 - me.rank)
    dist.barrier()
    return f"mean loss {loss / me.world_size:.2f}" if me.rank == 0 else None


@pytest.mark.parametrize("answer", [reduces_to(0), reduces_and_sends_home])
def test_a_reduce_whose_sum_stands_on_rank_0_in_the_end_may_be_reported_there(answer):
    seen = verdict("00.report", answer)
    assert seen.passed, seen


# -- sentences that were not true, or not the learner's ----------------------------------------------------------------


def meets_once_more(me, buckets):
    finish = hooks()(me, buckets)

    def finish_and_meet():
        finish()
        dist.barrier()

    return finish_and_meet


def returns_no_finish(me, buckets):
    hooks()(me, buckets)


def steps_too(me, model):
    by_the_modules(me, model)
    for parameter in model.parameters():
        parameter.data.add_(1)


def gathers_unlike_sizes(me, values):
    parts = [torch.empty_like(values) for _ in range(me.world_size)]
    dist.all_gather(parts, values)
    return float(torch.cat(parts).mean())


def in_parts(me, tensor):
    return ring_the_other_way(me, tensor).tensor_split(me.world_size)


def sends_the_tensor_too(me, tensor):
    arrived = torch.empty_like(tensor)
    exchange([send(tensor, (me.rank + 1) % me.world_size), recv(arrived, (me.rank - 1) % me.world_size)])
    return ring_the_other_way(me, tensor)


def gives_step_a_number(model, group, step):
    step(1)


class GateInAModule(nn.Module):
    @staticmethod
    def forward(ctx, x, is_entrance):
        return x


class GateOfNothing:
    @staticmethod
    def forward(ctx, x, is_entrance):
        return x


class GateOfAnObject:
    def apply(self, x, is_entrance):
        return x


@pytest.mark.first_cases(2)
@pytest.mark.parametrize(
    ("name", "answer", "words", "never"),
    [
        ("04.overlap", meets_once_more, "calls that nothing needs: 1 barrier", "got 4"),
        ("04.overlap", returns_no_finish, "what came is None", "no function, but"),
        ("04.overlap", hooks(clear=False, divide=False), "the gradients of step 1", "once more"),
        ("04.overlap", hooks(clear=False), "calls of an earlier step were waited for once more", "False"),
        ("04.gradients", steps_too, "your code changed what was to stay: '0.weight' of `model`", "'nothing'"),
        ("00.mean", gathers_unlike_sizes, "shape and dtype", "both ends"),
        ("02.ring", in_parts, "expected one tensor of shape (20,), got a tuple of 2", "cannot be compared"),
        (
            "02.ring",
            sends_the_tensor_too,
            "With 10 numbers for each rank on 2 ranks, where what is sent is counted: rank 0 sent",
            "the cost on",
        ),
        ("07.sync", gives_step_a_number, "TypeError: step() takes 0", "<locals>"),
        ("08.gates", GateInAModule, "`GateInAModule` is an `nn.Module`", "children"),
        ("08.gates", GateOfNothing, "`GateOfNothing` has no `apply`", "<class"),
        ("08.gates", GateOfNothing(), "What came is an object of the class `GateOfNothing`", "0x"),
        ("08.gates", GateOfAnObject, "Is a `@staticmethod` missing", "TypeError"),
        ("08.gates", same, "What came is the function `same`", "<function"),
    ],
)
def test_a_message_says_what_was_seen_in_the_learners_terms(name, answer, words, never):
    seen = verdict(name, answer)
    assert not seen.passed
    assert words in told(seen), seen
    assert never not in told(seen), seen
