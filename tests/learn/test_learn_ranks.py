"""Exercises that run on ranks: values by rank, failures told, forbidden calls seen on every rank."""

from __future__ import annotations

import sys
import time

import pytest
import torch
import torch.distributed as dist

from course_lib.learn.catalogue.exercise import Case, Exercise, Mistake
from course_lib.learn.checks.checking import judged
from course_lib.learn.judging.judge import by_ranks

pytestmark = pytest.mark.xdist_group("cluster")


def gathered(me, x):
    """The right answer: gather, then add."""
    parts = [torch.empty_like(x) for _ in range(me.world_size)]
    dist.all_gather(parts, x)
    return torch.stack(parts).sum(0)


def own_part(me, x):
    return x


def by_library(me, x):
    from torch.distributed import all_reduce

    all_reduce(x)
    return x


def tensor_of(rank, world_size):
    return (torch.full((2,), float(rank + 1)),)


def total(rank, world_size):
    return torch.full((2,), world_size * (world_size + 1) / 2)


SUM = Exercise(
    name="99.sum",
    title="Sum over ranks",
    judge=by_ranks([1, 2], [Case("two numbers a rank", tensor_of, total)], timeout_s=3.0),
    mistakes=(Mistake("own-part", "Each rank still holds its own part.", own_part),),
    hints=("a", "b", "c"),
    forbidden=("torch.distributed.all_reduce",),
)


def test_world_sizes_are_those_of_the_judge():
    assert SUM.world_sizes == (1, 2)


def test_what_is_wrong_is_tried_on_two_world_sizes_and_what_is_right_on_all():
    judge = by_ranks((2, 1, 3, 4), [Case("one number", tensor_of, total)])
    sizes = {
        answer: {outcome.case.split()[-1] for outcome in judge(answer).outcomes} for answer in (own_part, gathered)
    }
    assert sizes == {own_part: {"2", "1"}, gathered: {"2", "1", "3", "4"}}


def test_ranks_come_with_the_rooms_of_the_lessons():
    def rooms(me, _):
        return sum(name.startswith("course_lib.learn.exercises.lesson_") for name in sys.modules) > 50

    judge = by_ranks((3,), [Case("a new rank", tensor_of, True)])
    assert judge(rooms).passed


def test_no_mistake_is_named_where_something_is_left_and_nothing_else_is_wrong():
    def leaves_gradients_off(me, x):
        torch.set_grad_enabled(False)
        return gathered(me, x)

    eager = Mistake("eager", "Speaks of everything.", own_part, lambda evidence: True)
    judge = by_ranks((2,), [Case("one number", tensor_of, total)])
    exercise = Exercise(name="99.eager", title="Eager", judge=judge, mistakes=(eager,), hints=("a", "b", "c"))
    assert judged(exercise, own_part).mistake == "eager"
    verdict = judged(exercise, leaves_gradients_off)
    assert (verdict.status, verdict.mistake) == ("not yet", None)
    assert "left gradients switched off" in verdict.message


def test_a_right_answer_passes():
    assert judged(SUM, gathered).passed


def test_a_mistake_is_recognised_by_its_behaviour():
    verdict = judged(SUM, lambda me, x: x * 1)
    assert verdict.mistake == "own-part"
    assert "rank 0 of 2" in verdict.evidence


def test_an_unknown_mistake_names_the_rank():
    verdict = judged(SUM, lambda me, x: gathered(me, x) + (me.rank == 1))
    assert verdict.message.startswith("With two numbers a rank, rank 1 of 2: at [0]: expected 3.0, got 4.0")


def test_a_forbidden_call_on_a_rank_is_seen():
    verdict = judged(SUM, by_library)
    assert verdict.status == "forbidden"
    assert "torch.distributed.all_reduce" in verdict.message


def test_an_exception_on_a_rank_names_rank_and_line():
    def answer(me, x):
        if me.rank == 1:
            raise KeyError("lost")
        return gathered(me, x)

    verdict = judged(SUM, answer)
    assert verdict.status == "raised"
    assert "KeyError: 'lost' (rank 1), on line" in verdict.message
    assert verdict.message.endswith(", with two numbers a rank on 2 ranks.")
    assert "rank 0" in verdict.details


def test_a_stub_on_the_ranks_is_not_attempted():
    def answer(me, x):
        parts = [x]
        if parts:
            raise NotImplementedError("Your turn")
        return x

    assert judged(SUM, answer).status == "not attempted"


def test_a_rank_that_never_comes_is_told_at_the_deadline():
    def answer(me, x):
        return x if me.rank == 1 else gathered(me, x)

    verdict = judged(SUM, answer)
    assert verdict.status == "raised"
    assert "all_gather" in verdict.details.replace("allgather", "all_gather")
    assert verdict.message.startswith("Rank 0 of 2 can never finish")
    assert judged(SUM, gathered).passed  # and the ranks work again


def test_ranks_that_never_end_are_stopped_at_the_deadline():
    judge = by_ranks([2], [Case("a nap", (), None)], timeout_s=0.3)
    exercise = Exercise(name="99.nap", title="", judge=judge, mistakes=(), hints=("a", "b", "c"))
    verdict = judged(exercise, lambda me: time.sleep(45))
    assert verdict.status == "too slow"
    assert verdict.message.startswith("Ranks 0, 1 of 2 ran on for 0.3 seconds")
    assert "timeout_s" not in repr(verdict)


def test_what_every_rank_raises_is_laid_at_nobodys_door():
    verdict = judged(SUM, lambda me, x: x / 0 + [1][1])
    assert "IndexError: list index out of range (on every rank), on line" in verdict.message
    assert verdict.details == ""


def test_wrong_arity_on_ranks_names_no_line_of_the_library():
    verdict = judged(SUM, lambda me: me.rank)
    assert "1 positional argument but 2 were given" in verdict.message
    assert "judge.py" not in repr(verdict)
    assert "_settled" not in repr(verdict)


def test_a_rank_that_ends_its_process_is_told():
    def answer(me, x):
        import os

        os._exit(3)

    verdict = judged(SUM, answer)
    assert verdict.status == "raised"
    assert "exit code 3" in verdict.message
    assert judged(SUM, gathered).passed


# -- what is wrong about the way ------------------------------------------------------------------------------------


def of_a_clone(me, x):
    """The right answer: one all-reduce, of a copy."""
    x = x.clone()
    dist.all_reduce(x)
    return x


PLAIN = Exercise(
    name="99.plain",
    title="Sum over ranks",
    judge=by_ranks([2, 3], [Case("two numbers a rank", tensor_of, total)], timeout_s=3.0),
    mistakes=(Mistake("own-part", "Each rank still holds its own part.", own_part),),
    hints=("a", "b", "c"),
)


def test_a_right_result_that_overwrites_its_input_is_told_so():
    def in_place(me, x):
        dist.all_reduce(x)
        return x.clone()

    assert judged(PLAIN, of_a_clone).passed
    verdict = judged(PLAIN, in_place)
    assert verdict.status == "not yet"
    assert "your code changed what it was given: `x` has changed: at [0]: it was 1.0 and is now 3.0" in verdict.message
    allowed = by_ranks([2], [Case("two numbers a rank", tensor_of, total)], changes=True)
    lenient = Exercise(name="99.plain", title="", judge=allowed, mistakes=(), hints=("a", "b", "c"))
    assert judged(lenient, in_place).passed


@pytest.mark.parametrize("kept", [True, False])
def test_a_work_that_nobody_waited_for_is_told_even_when_it_was_quick(kept):
    def hasty(me, x):
        x = x.clone()
        work = dist.all_reduce(x, async_op=True)
        if kept:
            works.append(work)
        time.sleep(0.2)
        return x

    works: list = []
    verdict = judged(PLAIN, hasty)
    assert verdict.status == "not yet"
    assert "started all_reduce #1 on line " in verdict.message
    assert verdict.message.split(". ")[0].endswith("in hasty) and never waited for it")
    assert judged(PLAIN, of_a_clone).passed


def polled(me, x):
    """The right answer: it looks until the work is done."""
    x = x.clone()
    work = dist.all_reduce(x, async_op=True)
    while not work.is_completed():
        time.sleep(0.001)
    return x


def looked_at_once(me, x):
    """Wrong: it looks while the other rank has not even begun, and goes on when that one is done."""
    dist.barrier()
    x, note = x.clone(), torch.zeros(1)
    if me.rank == 1:
        dist.recv(note, 0)
        dist.all_reduce(x)
        dist.send(note, 0)
        return x
    work = dist.all_reduce(x, async_op=True)
    if not work.is_completed() and me.world_size > 1:
        dist.send(note, 1)
        dist.recv(note, 1)
    return x


def test_a_work_that_was_looked_at_until_it_was_done_is_waited_for():
    assert judged(PLAIN, polled).passed
    assert "rank 0 started all_reduce #2 on line " in judged(PLAIN, looked_at_once).message


def test_a_message_that_nobody_waited_for_is_told_though_it_has_come():
    def ring(me, x):
        got = torch.empty_like(x)
        sending = dist.isend(x, (me.rank + 1) % me.world_size)
        dist.recv(got, (me.rank - 1) % me.world_size)
        total = of_a_clone(me, x)
        del sending
        return total

    assert "started isend #1 on line " in judged(PLAIN, ring).message


def test_a_future_is_as_good_as_a_work():
    def by_future(me, x):
        (got,) = dist.all_reduce(x.clone(), async_op=True).get_future().wait()
        return got

    assert judged(PLAIN, by_future).passed


def test_what_a_right_answer_leaves_on_its_rank_is_told():
    def leaves(me, x):
        torch.set_grad_enabled(False)
        return of_a_clone(me, x)

    verdict = judged(PLAIN, leaves)
    assert "your code left something behind" in verdict.message
    assert "left gradients switched off" in verdict.message


# -- NCCL ----------------------------------------------------------------------------------------------------------


def shifted(rank, world_size):
    return torch.full((2,), float((rank - 1) % world_size + 1))


def one_by_one(me, x):
    """Right on gloo; on NCCL both ranks would wait in their send."""
    got = torch.empty_like(x)
    works = [dist.isend(x, (me.rank + 1) % me.world_size), dist.irecv(got, (me.rank - 1) % me.world_size)]
    for work in works:
        work.wait()
    return got


def in_a_batch(me, x):
    got = torch.empty_like(x)
    ahead, behind = (me.rank + 1) % me.world_size, (me.rank - 1) % me.world_size
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, x, ahead), dist.P2POp(dist.irecv, got, behind)]):
        work.wait()
    return got


def test_a_right_answer_that_would_hang_on_nccl_passes_with_a_warning():
    shift = Exercise(
        name="99.shift",
        title="Pass on",
        judge=by_ranks([2], [Case("two numbers", tensor_of, shifted)], timeout_s=5.0),
        mistakes=(),
        hints=("a", "b", "c"),
    )
    verdict = judged(shift, one_by_one)
    assert verdict.passed
    assert "On NCCL this may hang: rank 0 waits in its send to 1" in verdict.warning
    assert verdict.warning in repr(verdict)
    assert "Beware: On NCCL" in verdict._html()
    good = judged(shift, in_a_batch)
    assert (good.passed, good.warning) == (True, "")
    assert "Beware" not in repr(good) + good._html()
