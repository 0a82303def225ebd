"""Lesson 04's judges against answers that are neither the reference nor a catalogued example."""

from __future__ import annotations

import contextlib
import math
import zlib

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from answers.lesson_04.right.accumulate import flag_in_time
from answers.lesson_04.right.gradients import one_flat_message

from course_lib.learn import exercises
from course_lib.learn.checks.checking import judged

pytestmark = [pytest.mark.xdist_group("exercises"), pytest.mark.long]


def verdict(name, answer):
    return judged(exercises.exercise(name), answer)


# -- right in another way ---------------------------------------------------------------------------------------


def divides_before_it_sends(me, buckets):
    """Counts down, divides in the hook, and makes the parts of the flat tensor the gradients themselves."""
    left, works = {}, []

    def hook(parameter):
        number = place[parameter]
        left[number] = left.get(number, len(buckets[number])) - 1
        if not left[number]:
            flat = torch.cat([p.grad.flatten() for p in buckets[number]]) / me.world_size
            works.append((number, flat, dist.all_reduce(flat, async_op=True)))
            del left[number]

    place = {parameter: number for number, bucket in enumerate(buckets) for parameter in bucket}
    for parameter in place:
        parameter.register_post_accumulate_grad_hook(hook)

    def finish():
        while works:
            number, flat, work = works.pop(0)
            work.wait()
            for p, part in zip(buckets[number], flat.split([p.numel() for p in buckets[number]]), strict=True):
                p.grad = part.view_as(p)

    return finish


def deals_one_by_one(num_items, rank, world_size, epoch, seed):
    order = torch.randperm(num_items, generator=torch.Generator().manual_seed(seed + epoch))
    share = math.ceil(num_items / world_size)
    for turn in range(share):
        yield int(order[(rank + turn * world_size) % num_items])


def clears_at_the_end(ddp, optimizer, pieces):
    flag_in_time(ddp, optimizer, pieces)
    optimizer.zero_grad()


def smallest_and_largest_hash(me, model):
    low = torch.tensor([zlib.crc32(p.detach().cpu().numpy().tobytes()) for p in model.parameters()])
    high = low.clone()
    dist.all_reduce(low, op=dist.ReduceOp.MIN)
    dist.all_reduce(high, op=dist.ReduceOp.MAX)
    return [name for (name, _), odd in zip(model.named_parameters(), (low != high).tolist(), strict=True) if odd]


def every_bit_by_objects(me, model):
    mine = {name: zlib.adler32(p.detach().cpu().numpy().tobytes()) for name, p in model.named_parameters()}
    everything = [None] * me.world_size
    dist.all_gather_object(everything, mine)
    return [name for name in mine if len({other[name] for other in everything}) > 1]


@pytest.mark.first_cases(2)
@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("04.overlap", divides_before_it_sends),
        ("04.sampler", deals_one_by_one),
        ("04.accumulate", clears_at_the_end),
        ("04.drift", smallest_and_largest_hash),
        ("04.drift", every_bit_by_objects),
    ],
)
def test_another_right_answer_passes(name, answer):
    seen = verdict(name, answer)
    assert seen.passed, seen


# -- wrong in another way ---------------------------------------------------------------------------------------


def rank_1_skips(me, model):
    """A rank that leaves out its calls: the others wait, and the judge does not wait for ever."""
    if me.rank != 1:
        one_flat_message(me, model)


def takes_the_step_too(me, model):
    one_flat_message(me, model)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data -= 0.1 * parameter.grad


def mean_in_a_new_tensor(me, model):
    for parameter in model.parameters():
        if parameter.requires_grad:
            grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad / me.world_size
            dist.all_reduce(grad)


def mean_over_users(me, model):
    """Divides by the number of ranks that used the layer."""
    for parameter in model.parameters():
        if parameter.requires_grad:
            num_users = torch.tensor(float(parameter.grad is not None))
            dist.all_reduce(num_users)
            parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            dist.all_reduce(parameter.grad)
            parameter.grad /= num_users


def star(me, model):
    """The mean by way of rank 0: right, but not what a ring sends."""
    for parameter in model.parameters():
        if parameter.requires_grad:
            grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            everything = [torch.empty_like(grad) for _ in range(me.world_size)]
            dist.gather(grad, everything if me.rank == 0 else None, dst=0)
            mean = torch.stack(everything).mean(dim=0) if me.rank == 0 else grad
            dist.broadcast(mean, src=0)
            parameter.grad = mean


def one_early_bucket(me, buckets):
    """Starts the first bucket early and leaves the others for the end: some of it hidden, not all."""
    finish_first = divides_before_it_sends(me, buckets[:1])

    def finish():
        finish_first()
        for bucket in buckets[1:]:
            flat = torch.cat([p.grad.flatten() for p in bucket])
            dist.all_reduce(flat)
            for p, part in zip(bucket, (flat / me.world_size).split([p.numel() for p in bucket]), strict=True):
                p.grad.copy_(part.view_as(p))

    return finish


def counts_buckets(me, buckets):
    """Compares the count with the number of buckets, in place of the bucket's length."""
    come = [0] * len(buckets)

    def hook(number):
        come[number] += 1
        if come[number] == len(buckets):
            dist.all_reduce(torch.cat([p.grad.flatten() for p in buckets[number]]), async_op=True)

    for number, bucket in enumerate(buckets):
        for parameter in bucket:
            parameter.register_post_accumulate_grad_hook(lambda _, number=number: hook(number))
    return lambda: None


def joins_unequal_shapes(me, buckets):
    def hook(_):
        torch.cat([p.grad for p in buckets[-1]])

    buckets[-1][-1].register_post_accumulate_grad_hook(hook)
    return lambda: None


def one_more_than_needed(num_items, rank, world_size, epoch, seed):
    order = torch.randperm(num_items, generator=torch.manual_seed(seed + epoch)).tolist()
    return (order * world_size)[: (num_items // world_size + 1) * world_size][rank::world_size]


def pads_before_it_shuffles(num_items, rank, world_size, epoch, seed):
    total = math.ceil(num_items / world_size) * world_size
    order = torch.randperm(total, generator=torch.Generator().manual_seed(seed + epoch)) % num_items
    return order[rank::world_size].tolist()


def everything_under_no_sync(ddp, optimizer, pieces):
    optimizer.zero_grad()
    with ddp.no_sync():
        for x, y in pieces:
            (F.cross_entropy(ddp(x), y) / len(pieces)).backward()
    optimizer.step()


def backward_once_for_all(ddp, optimizer, pieces):
    """Right step, one all-reduce; but DDP's forward runs several times before backward, the last of them in sync."""
    optimizer.zero_grad()
    losses = []
    for index, (x, y) in enumerate(pieces):
        with contextlib.nullcontext() if index == len(pieces) - 1 else ddp.no_sync():
            losses.append(F.cross_entropy(ddp(x), y))
    torch.stack(losses).sum().backward()
    optimizer.step()


def weights_of_rank_0(me, model):
    found = []
    for name, parameter in model.named_parameters():
        other = parameter.detach().clone()
        dist.broadcast(other, src=0)
        found += [] if torch.equal(other, parameter) else [name]
    return found


def names_in_a_set(me, model):
    return {name for name, _ in model.named_parameters()}


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "answer", "mistake", "words"),
    [
        ("04.gradients", rank_1_skips, None, "rank 1"),
        ("04.gradients", takes_the_step_too, None, "changed what was to stay"),
        ("04.gradients", mean_in_a_new_tensor, "averages-the-weights", "in that tensor"),
        ("04.gradients", mean_over_users, "mean-over-users", "not every rank used"),
        ("04.gradients", star, None, "sent, in sizes of the gradients"),
        ("04.overlap", one_early_bucket, "leaves-late", "2 of the buckets were complete, and 1"),
        ("04.overlap", counts_buckets, "leaves-too-soon", "len(buckets[number])"),
        ("04.overlap", joins_unequal_shapes, None, "same number of dimensions"),
        ("04.sampler", one_more_than_needed, None, "expected 3 indices"),
        ("04.sampler", pads_before_it_shuffles, None, "10 examples on 4 ranks"),
        ("04.accumulate", everything_under_no_sync, "never-averaged", "the change of the weights"),
        ("04.accumulate", backward_once_for_all, "sum-of-means", "the change of the weights"),
        ("04.drift", weights_of_rank_0, "ranks-disagree", "different lists"),
        ("04.drift", names_in_a_set, None, "a list of names"),
    ],
)
def test_other_wrong_answers_are_turned_away_with_what_was_seen(name, answer, mistake, words):
    seen = verdict(name, answer)
    assert not seen.passed
    assert seen.mistake == mistake, seen
    assert words in f"{seen.message} {seen.evidence} {seen.details}"
