"""Lesson 00's judges against the answers by which reviews fooled them, or were wronged by them."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
import torch
import torch.distributed as dist
from answers.lesson_00.right import RIGHT_ANSWERS

from course_lib.learn import exercises
from course_lib.learn.checks.checking import judged

pytestmark = [pytest.mark.xdist_group("exercises"), pytest.mark.long]


def verdict(name, answer, **how):
    """``how``: in place of what the judge tries, such as ``world_sizes=(2,)``: ranks that are thrown away take time."""
    exercise = exercises.exercise(name)
    return judged(replace(exercise, judge=replace(exercise.judge, **how)) if how else exercise, answer)


# -- 00.share ----------------------------------------------------------------------------------------------------------


def right_share(num_items, rank, world_size):
    base, extra = divmod(num_items, world_size)
    start = rank * base + min(rank, extra)
    return range(start, start + base + (rank < extra))


def list_of_items(num_items, rank, world_size):
    return list(right_share(num_items, rank, world_size))


def four_ranks_at_most(num_items, rank, world_size):
    return right_share(num_items, rank, min(world_size, 4))


def a_thousand_at_most(num_items, rank, world_size):
    return right_share(min(num_items, 1000), rank, world_size)


def by_floats(num_items, rank, world_size):
    return range(round(num_items / world_size * rank), round(num_items / world_size * (rank + 1)))


def by_whole_parts(num_items, rank, world_size):
    return range(-(-num_items * rank // world_size), -(-num_items * (rank + 1) // world_size))


def last_ranks_take_more(num_items, rank, world_size):
    base, extra = divmod(num_items, world_size)
    start = rank * base + max(0, rank - (world_size - extra))
    return range(start, start + base + (rank >= world_size - extra))


@pytest.mark.parametrize("answer", [by_whole_parts, last_ranks_take_more])
def test_a_fair_deal_is_called_so_wherever_the_extra_items_fall(answer):
    assert verdict("00.share", answer).mistake == "extras-elsewhere"


def test_a_deal_that_is_fair_for_most_sizes_only_is_not_called_so():
    assert verdict("00.share", four_ranks_at_most).mistake is None


def as_pairs(num_items, rank, world_size):
    share = right_share(num_items, rank, world_size)
    return share.start, share.stop


def slices(num_items, rank, world_size):
    share = right_share(num_items, rank, world_size)
    return slice(share.start, share.stop)


def backwards(num_items, rank, world_size):
    return right_share(num_items, rank, world_size)[::-1]


@pytest.mark.first_cases(3)
@pytest.mark.parametrize(
    "answer", [list_of_items, four_ranks_at_most, a_thousand_at_most, by_floats, as_pairs, slices, backwards]
)
def test_a_share_that_is_right_for_some_sizes_or_in_another_form_is_refused(answer):
    assert verdict("00.share", answer).status in ("not yet", "raised")


def test_a_list_is_told_what_a_range_is_for():
    seen = verdict("00.share", list_of_items)
    assert seen.mistake == "list-for-range"
    assert "`start`" in seen.message


def test_a_wrong_share_is_told_in_items():
    seen = verdict("00.share", lambda n, rank, w: right_share(n, rank, w)[1:])
    assert seen.message.startswith("With 8 items on 4 ranks: rank 0 should take items 0 to 1 and takes item 1.")


# -- 00.mean -----------------------------------------------------------------------------------------------------------


def totals_of(values):
    return torch.stack([values.sum(), torch.tensor(float(len(values)), dtype=values.dtype)])


def gathers_all_values(me, values):
    parts = [None] * me.world_size
    dist.all_gather_object(parts, values.tolist())
    flat = [value for part in parts for value in part]
    return sum(flat) / len(flat)


def a_million_doubles(me, values):
    totals = torch.zeros(1_000_000, dtype=torch.float64)
    totals[:2] = totals_of(values)
    dist.all_reduce(totals)
    return float(totals[0] / totals[1])


def clears_the_values(me, values):
    totals = totals_of(values)
    dist.all_reduce(totals)
    values.zero_()
    return float(totals[0] / totals[1])


def ends_the_group(me, values):
    totals = totals_of(values)
    dist.all_reduce(totals)
    dist.destroy_process_group()
    return float(totals[0] / totals[1])


def leaves_a_message(me, values):
    totals = totals_of(values)
    dist.all_reduce(totals)
    dist.isend(totals, (me.rank + 1) % me.world_size)
    return float(totals[0] / totals[1])


def makes_a_group(me, values):
    totals = totals_of(values)
    dist.all_reduce(totals, group=dist.new_group(list(range(me.world_size))))
    return float(totals[0] / totals[1])


def whole_numbers(me, values):
    totals = torch.tensor([int(values.sum()), len(values)])
    dist.all_reduce(totals)
    return float(totals[0] / totals[1])


def half_of_the_total(me, values):
    totals = totals_of(values)
    dist.all_reduce(totals)
    return float(totals[0] / totals[1]) / 2


def switches_gradients_off(me, values):
    torch.set_grad_enabled(False)
    totals = totals_of(values)
    dist.all_reduce(totals)
    return float(totals[0] / totals[1])


@pytest.mark.first_cases(4)
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            gathers_all_values,
            "With thousands of float32 numbers, zeros among them, and none on rank 1, rank 0 of 2: the result "
            "is right, and for it",
        ),
        (a_million_doubles, "8,000,000 bytes"),
        (clears_the_values, "`values` has changed"),
        (ends_the_group, "the process group is gone"),
        (leaves_a_message, "started isend #1"),
        (makes_a_group, "a process group that your code made is left behind"),
        (switches_gradients_off, "left gradients switched off"),
        (half_of_the_total, "expected"),
    ],
)
def test_a_mean_that_costs_too_much_or_leaves_something_behind_is_refused(answer, words):
    seen = verdict("00.mean", answer, world_sizes=(2,))
    assert (seen.status, seen.mistake) == ("not yet", None), seen
    assert words in seen.message


def whole_sums_in_float(me, values):
    """The whole part of the sum, in a tensor that could have held the rest."""
    totals = torch.tensor([float(int(values.sum())), float(len(values))])
    dist.all_reduce(totals)
    return float(totals[0] / totals[1])


def divides_by_the_largest_count(me, values):
    """With rank + 1 numbers on each rank the largest count is the number of ranks."""
    total, count = values.sum(), torch.tensor(len(values))
    dist.all_reduce(total)
    dist.all_reduce(count, op=dist.ReduceOp.MAX)
    return float(total / count)


def test_the_largest_count_is_not_taken_for_the_number_of_ranks():
    assert verdict("00.mean", divides_by_the_largest_count, world_sizes=(2,)).mistake is None


def own_count_times_ranks(me, values):
    total = values.sum()
    dist.all_reduce(total)
    return float(total / (len(values) * me.world_size)) if len(values) else 0.0


@pytest.mark.parametrize(
    ("answer", "mistake"),
    [
        (whole_numbers, "in-whole-numbers"),
        (whole_sums_in_float, "in-whole-numbers"),
        (own_count_times_ranks, "takes-shares-for-equal"),
    ],
)
def test_a_mean_of_cut_sums_or_of_shares_taken_for_equal_is_told_so(answer, mistake):
    assert verdict("00.mean", answer, world_sizes=(2,)).mistake == mistake


def assigned(me, values):
    total = values.sum()
    total = dist.all_reduce(total)
    count = dist.all_reduce(torch.tensor(len(values)))
    return total / count


def returned_at_once(me, values):
    return dist.all_reduce(values.sum())


@pytest.mark.parametrize("answer", [assigned, returned_at_once])
def test_who_keeps_what_all_reduce_returns_is_told_that_it_works_in_place(answer):
    seen = verdict("00.mean", answer)
    assert seen.mistake == "keeps-what-comes-back"
    assert "in place" in seen.message


def returns_nothing(me, values):
    dist.all_reduce(totals_of(values))


def test_a_none_of_another_origin_is_not_taken_for_that():
    seen = verdict("00.mean", returns_nothing, world_sizes=(2,))
    assert seen.mistake is None
    assert "`return`" in seen.message


def test_a_sleep_is_not_called_a_missing_rank():
    seen = verdict("00.mean", lambda me, values: time.sleep(30), timeout_s=0.5)
    assert seen.mistake is None
    assert "ran on for 0.5 seconds" in seen.message


def another_operation_on_rank_0(me, values):
    totals = totals_of(values)
    if me.rank == 0:
        dist.broadcast(totals, 0)
    else:
        dist.all_reduce(totals)
    return float(totals[0] / totals[1])


def waits_for_a_message(me, values):
    dist.recv(totals_of(values), (me.rank + 1) % me.world_size)


@pytest.mark.parametrize(
    ("answer", "words"),
    [(another_operation_on_rank_0, "same operation"), (waits_for_a_message, "This is a deadlock")],
)
def test_other_hangs_are_told_as_they_are_and_with_the_learners_line(answer, words):
    seen = verdict("00.mean", answer)
    assert seen.mistake is None
    assert words in seen.details
    assert f"in {answer.__name__}" in seen.details
    assert "tried.py" not in seen.details


def unlike_shapes_of_no_values(me, values):
    dist.all_reduce(torch.zeros(3 + me.rank))
    return 0.0


def test_unlike_shapes_that_are_not_the_values_are_not_called_so():
    assert verdict("00.mean", unlike_shapes_of_no_values).mistake is None


def sends_and_keeps_its_own(me, values):
    dist.all_reduce(totals_of(values))
    return float(values.mean())


def test_own_means_are_not_said_to_be_unsent_when_something_was():
    assert verdict("00.mean", sends_and_keeps_its_own).mistake is None


# -- 00.report ---------------------------------------------------------------------------------------------------------


def right_report(me, loss):
    dist.all_reduce(loss)
    return f"mean loss {loss / me.world_size:.2f}" if me.rank == 0 else None


def a_fixed_text(me, loss):
    return "mean loss 2.00" if me.rank == 0 else None


def floor_of_the_mean(me, loss):
    dist.all_reduce(loss)
    return f"mean loss {loss // me.world_size:.2f}" if me.rank == 0 else None


def for_four(me, loss):
    dist.all_reduce(loss)
    return f"mean loss {loss / 4:.2f}" if me.rank == 0 else None


def leaves_a_send(me, loss):
    text = right_report(me, loss)
    dist.isend(loss, (me.rank + 1) % me.world_size)
    return text


def leaves_a_barrier(me, loss):
    text = right_report(me, loss)
    dist.barrier(async_op=True)
    return text


def prints_it(me, loss):
    print(right_report(me, loss))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (a_fixed_text, "expected 'mean loss 0.81'"),
        (floor_of_the_mean, "expected"),
        (for_four, "expected"),
        (leaves_a_send, "isend"),
        (leaves_a_barrier, "barrier"),
        (prints_it, "`return`"),
    ],
)
def test_a_report_without_a_meeting_or_with_something_left_is_refused(answer, words):
    seen = verdict("00.report", answer, world_sizes=(2, 3))
    assert (seen.status, seen.mistake) == ("not yet", None), seen
    assert words in seen.message


def test_nothing_is_poisoned_for_the_next_answer():
    verdict("00.report", leaves_a_send, world_sizes=(2,))
    assert verdict("00.report", right_report, world_sizes=(2,)).passed
    assert verdict("00.mean", RIGHT_ANSWERS["00.mean"][0], world_sizes=(2,)).passed


def test_a_loop_without_end_is_not_called_a_missing_rank():
    seen = verdict("00.report", lambda me, loss: time.sleep(30), timeout_s=0.5)
    assert seen.mistake is None
