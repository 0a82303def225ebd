"""Lesson 04: right answers of other styles pass, what reviews found accepted is refused, and messages are true."""

from __future__ import annotations

import dataclasses
import zlib
from functools import partial

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from answers.lesson_04.right import RIGHT_ANSWERS
from answers.lesson_04.right.accumulate import flag_in_time
from answers.lesson_04.right.gradients import by_the_modules, one_flat_message
from answers.lesson_04.right.overlap import counts_down_and_divides_first, with_senders

from course_lib.learn import exercises
from course_lib.learn.checks.checking import judged

pytestmark = [pytest.mark.xdist_group("exercises"), pytest.mark.long]


def verdict(name, answer):
    return judged(exercises.exercise(name), answer)


# -- found accepted, and wrong ----------------------------------------------------------------------------------


def two_or_four(answer):
    """Right on 2 and on 4 ranks; on others the world is taken for one of 4."""

    def hard_coded(me, *args):
        return answer(me if me.world_size in (2, 4) else dataclasses.replace(me, world_size=4), *args)

    return hard_coded


def sampler_of_the_course(num_items, rank, world_size, epoch, seed):
    from course_lib.parallel.data import DistributedSampler

    return list(DistributedSampler(num_items, rank=rank, world_size=world_size, seed=seed, epoch=epoch))


def detector_of_the_course(me, model):
    from course_lib.parallel.data import DivergenceDetector

    drift = DivergenceDetector(me, model).check(0)
    return [] if drift is None else list(drift.parameters)


def hashes_in_float32(me, model):
    mine = torch.tensor(
        [zlib.crc32(p.detach().cpu().numpy().tobytes()) for p in model.parameters()], dtype=torch.float32
    )
    rows = [torch.empty_like(mine) for _ in range(me.world_size)]
    dist.all_gather(rows, mine)
    odd = (torch.stack(rows) != rows[0]).any(dim=0).tolist()
    return [name for (name, _), differs in zip(model.named_parameters(), odd, strict=True) if differs]


def zeroes_the_weights(me, model):
    found = RIGHT_ANSWERS["04.drift"][0](me, model)
    for parameter in model.parameters():
        parameter.data.zero_()
    return found


def four_pieces_whatever_comes(ddp, optimizer, pieces):
    optimizer.zero_grad()
    for index, (x, y) in enumerate(pieces):
        ddp.require_backward_grad_sync = index == len(pieces) - 1
        (F.cross_entropy(ddp(x), y) / 4).backward()
    optimizer.step()


def leaves_it_in_eval_mode(ddp, optimizer, pieces):
    flag_in_time(ddp, optimizer, pieces)
    ddp.eval()


def empties_the_list(ddp, optimizer, pieces):
    flag_in_time(ddp, optimizer, pieces)
    pieces.clear()


def holds_a_list_of_flats(me, buckets):
    """Keeps every flat tensor for good."""
    senders, kept = with_senders(me, buckets), []

    def finish():
        kept.append(torch.cat([p.grad.flatten() for bucket in buckets for p in bucket]))
        senders()

    return finish


def forgets_finish(me, buckets):
    with_senders(me, buckets)


def leaves_out_the_last_rank_beyond_three(me, model):
    if me.world_size == 5:
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.grad = torch.zeros_like(parameter)
    else:
        one_flat_message(me, model)


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(
    ("name", "answer", "status", "words"),
    [
        ("04.gradients", two_or_four(by_the_modules), "not yet", "of 3"),
        ("04.gradients", leaves_out_the_last_rank_beyond_three, "not yet", "of 5"),
        ("04.overlap", two_or_four(counts_down_and_divides_first), "not yet", "gradients"),
        ("04.overlap", holds_a_list_of_flats, "not yet", "more numbers lie in memory"),
        ("04.overlap", forgets_finish, "not yet", "`start_early` is to return a function"),
        ("04.sampler", sampler_of_the_course, "forbidden", "DistributedSampler"),
        ("04.drift", detector_of_the_course, "forbidden", "DivergenceDetector"),
        ("04.drift", hashes_in_float32, "not yet", "float32"),
        ("04.drift", zeroes_the_weights, "not yet", "changed what it was given"),
        ("04.accumulate", four_pieces_whatever_comes, "not yet", "the change of the weights"),
        ("04.accumulate", leaves_it_in_eval_mode, "not yet", "eval mode"),
        ("04.accumulate", empties_the_list, "not yet", "had 4 items and has 0 now"),
    ],
)
def test_what_was_found_accepted_is_refused(name, answer, status, words):
    seen = verdict(name, answer)
    assert seen.status == status, seen
    assert words in f"{seen.message} {seen.evidence}", seen


# -- messages that said what nobody saw -------------------------------------------------------------------------


@pytest.mark.parametrize("indices", [{}, {0, 1}, "01", 3, [0.5], [True]])
def test_what_is_no_list_of_indices_is_called_so(indices):
    seen = verdict("04.sampler", lambda num_items, rank, world_size, epoch, seed: indices)
    assert (seen.status, seen.mistake) == ("not yet", None), seen
    assert "behind the last" not in seen.message


def test_an_index_that_does_not_exist_is_named():
    def from_one(num_items, rank, world_size, epoch, seed):
        return [index + 1 for index in RIGHT_ANSWERS["04.sampler"][2](num_items, rank, world_size, epoch, seed)]

    seen = verdict("04.sampler", from_one)
    assert seen.mistake is None
    assert "there is no example 12" in seen.message


def test_a_generator_of_its_own_that_goes_on_is_not_said_to_be_the_global_one():
    generator = torch.Generator().manual_seed(5)

    def goes_on(num_items, rank, world_size, epoch, seed):
        return torch.randperm(num_items, generator=generator)[rank::world_size]

    assert verdict("04.sampler", goes_on).mistake is None


def test_a_list_of_all_names_is_not_said_to_come_from_pythons_hash():
    seen = verdict("04.drift", lambda me, model: [name for name, _ in model.named_parameters()])
    assert (seen.status, seen.mistake) == ("not yet", None), seen


def test_an_error_about_none_where_a_layer_was_unused_is_not_taken_for_a_hang():
    def adds_to_none(me, model):
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.grad.add_(0)
        one_flat_message(me, model)

    seen = verdict("04.gradients", adds_to_none)
    assert (seen.status, seen.mistake) == ("raised", None), seen


# -- slips that had no name beside another one ------------------------------------------------------------------


def fills_once(*, seed_of=lambda seed, epoch, rank: seed + epoch, shuffle=True, blocks=False, cut=False):
    """The gap is filled by what there is, as far as that goes; or the order is cut."""

    def indices(num_items, rank, world_size, epoch, seed):
        order = list(range(num_items))
        if shuffle:
            draw = torch.Generator().manual_seed(seed_of(seed, epoch, rank))
            order = torch.randperm(num_items, generator=draw).tolist()
        share = num_items // world_size if cut else -(-num_items // world_size)
        order = (order + order)[: share * world_size]
        return order[rank * share : (rank + 1) * share] if blocks else order[rank::world_size]

    return indices


@pytest.mark.parametrize(
    ("answer", "mistake"),
    [
        (fills_once(), "fills-up-once"),
        (fills_once(blocks=True), "in-blocks"),
        (fills_once(blocks=True, cut=True), "in-blocks"),
        (fills_once(shuffle=False), "not-shuffled"),
        (fills_once(seed_of=lambda seed, epoch, rank: seed), "the-same-in-every-epoch"),
        (fills_once(seed_of=lambda seed, epoch, rank: seed + epoch + rank), "a-seed-for-each-rank"),
    ],
)
def test_a_slip_of_the_sampler_keeps_its_name_where_the_gap_is_filled_once(answer, mistake):
    assert verdict("04.sampler", answer).mistake == mistake


def test_a_bucket_that_leaves_too_soon_with_zeros_is_told_so():
    def zeros_for_those_to_come(me, buckets):
        begun, come = [], [0] * len(buckets)

        def on_gradient(number, parameter):
            come[number] += 1
            if come[number] == 1:
                there = [torch.zeros_like(p) if p.grad is None else p.grad for p in buckets[number]]
                flat = torch.cat([gradient.flatten() for gradient in there])
                begun.append((number, flat, dist.all_reduce(flat, async_op=True)))
            come[number] %= len(buckets[number])

        def finish():
            for number, flat, work in begun:
                work.wait()
                sizes = [p.numel() for p in buckets[number]]
                for p, part in zip(buckets[number], (flat / me.world_size).split(sizes), strict=True):
                    p.grad.copy_(part.view_as(p))
            begun.clear()

        for number, bucket in enumerate(buckets):
            for parameter in bucket:
                parameter.register_post_accumulate_grad_hook(partial(on_gradient, number))
        return finish

    assert verdict("04.overlap", zeros_for_those_to_come).mistake == "leaves-too-soon"
