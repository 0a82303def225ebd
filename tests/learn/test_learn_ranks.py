"""Exercises that run on ranks: values by rank, failures told, forbidden calls seen on every rank."""

from __future__ import annotations

import time

import pytest
import torch
import torch.distributed as dist

from course_lib.learn.checking import judged
from course_lib.learn.exercise import Case, Exercise, Mistake
from course_lib.learn.judge import by_ranks

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
    forbidden_example=by_library,
)


def test_world_sizes_are_those_of_the_judge():
    assert SUM.world_sizes == (1, 2)


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

    started_s = time.monotonic()
    verdict = judged(SUM, answer)
    assert verdict.status == "raised"
    assert "all_gather" in verdict.details.replace("allgather", "all_gather")
    assert time.monotonic() - started_s < 30  # a hang limit
    assert verdict.message.startswith("Rank 0 of 2 can never finish")
    assert judged(SUM, gathered).passed  # and the ranks work again


def test_ranks_that_never_end_are_stopped_at_the_deadline():
    judge = by_ranks([2], [Case("a nap", (), None)], timeout_s=0.3)
    exercise = Exercise(name="99.nap", title="", judge=judge, mistakes=(), hints=("a", "b", "c"))
    verdict = judged(exercise, lambda me: time.sleep(45))
    assert "had not finished after timeout_s = 0.3 s" in verdict.message


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
