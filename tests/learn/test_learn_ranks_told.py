"""What is said of ranks that failed or never ended: whose it was, where in the learner's code, and nothing of ours."""

from __future__ import annotations

import time

import pytest
import torch
import torch.distributed as dist

from course_lib.cluster import RankFailed
from course_lib.cluster.base.failure import Cause, Failure, Frame
from course_lib.cluster.failures.rank_status import Accounts, Operation, RankStatus
from course_lib.cluster.failures.report import stuck_story
from course_lib.learn import exercises
from course_lib.learn.catalogue.exercise import Case, Exercise
from course_lib.learn.checks.checking import judged
from course_lib.learn.judging.judge import by_ranks
from course_lib.learn.judging.rank_failure_messages import of_ranks

pytestmark = pytest.mark.xdist_group("cluster")


def exercise_of(judge):
    return Exercise(name="99.told", title="", judge=judge, mistakes=(), hints=("a", "b", "c"))


def of(*world_sizes, timeout_s=5.0):
    return exercise_of(by_ranks(world_sizes, [Case("a number", (), None)], timeout_s=timeout_s))


def test_ranks_that_raised_are_named_and_so_is_the_case():
    def answer(me):
        dist.barrier()
        if me.rank != 1:
            raise KeyError("lost")
        time.sleep(0.2)

    message = judged(of(3), answer).message
    assert "KeyError: 'lost' (ranks 0, 2), on line " in message
    assert message.endswith(", with a number on 3 ranks.")


def test_a_loop_on_one_rank_is_told_with_its_line_and_who_waits_for_it():
    def answer(me):
        while me.rank == 1:
            time.sleep(0.01)
        dist.barrier()

    verdict = judged(of(2, timeout_s=1.0), answer)
    assert verdict.status == "too slow"
    assert verdict.message.startswith("Rank 1 of 2 ran on for 1 seconds")
    assert "was stopped, at line " in verdict.message
    assert "(`time.sleep(0.01)`)" in verdict.message
    assert verdict.message.endswith("(with a number on 2 ranks). Does a loop never end?")
    assert "rank 0  waits in barrier" in verdict.details
    assert "timeout_s" not in repr(verdict)


def test_a_verdict_on_a_loop_says_nothing_of_a_rank_that_had_returned():
    def answer(me):
        while me.rank == 0:
            time.sleep(0.01)

    assert judged(of(2, timeout_s=0.5), answer).message.startswith("Rank 0 of 2 ran on")


def never_called(me):
    if me.rank == 0:
        dist.all_reduce(torch.ones(2))


def test_one_that_can_never_finish_waits_in_one_call():
    said = "Rank 0 of 2 can never finish: the call that it waits in will not be answered (with a number on 2 ranks)."
    assert judged(of(2), never_called).message == said


def all_but_one(me):
    if me.rank != 1:
        dist.all_reduce(torch.ones(2))


def test_several_wait_in_several_calls():
    said = "Ranks 0, 2 of 3 can never finish: the calls that they wait in will not be answered"
    assert judged(of(3), all_but_one).message.startswith(said)


def test_of_ranks_that_wait_in_vain_beside_one_that_runs_only_these_are_said_never_to_finish():
    pending = Operation("all_reduce", 1, "0", False, False, (), ())
    inside = (Frame("/lib/torch/distributed/distributed_c10d.py", 7, "all_reduce"),)
    group = Accounts(groups={"0": (0, 1)}, counts={"0": 1})
    waits = RankStatus(0, pending, inside, 1, is_in_wait=True, accounts=group)
    statuses = {
        0: waits,
        1: RankStatus(1, None, (), 0, state="returned", accounts=Accounts(groups={"0": (0, 1)})),
        2: RankStatus(2, None, (Frame("<cell 1>", 3, "f"),), 0, accounts=Accounts()),
    }
    assert stuck_story(statuses, 3, timeout_s=None).startswith("Rank 0 of 3 can never finish")


@pytest.mark.first_cases(2)
@pytest.mark.parametrize("name", ["06.tied", "08.gates", "04.gradients", "07.halves", "08.mlp"])
def test_no_verdict_shows_a_file_of_the_judges(name):
    verdict = judged(exercises.exercise(name), lambda *args, **kwargs: object())
    assert not verdict.passed
    shown = repr(verdict)
    assert ".py, line" not in shown.replace("test_learn_ranks_told.py", "")
    assert "on line" not in verdict.message


def of_the_judges(line_number):
    from course_lib.learn.exercises.lesson_08 import step

    return Frame(step.__file__, line_number, "step_of", "with Recorder(me.rank) as recorder:")


def cell_line(line_number):
    return Frame("<cell 4>", line_number, "answer", "total = x + 1")


def test_lines_of_the_judges_are_left_out_of_a_report_of_ranks():
    in_trial = Failure(0, "raised", (Cause("TypeError", "no len()", (of_the_judges(4),)),), 0.0)
    in_cell = Failure(1, "raised", (Cause("KeyError", "lost", (of_the_judges(4), cell_line(9))),), 1.0)
    waits = RankStatus(2, None, (cell_line(3), of_the_judges(30)))
    error = RankFailed("", failures={0: in_trial, 1: in_cell}, statuses={2: waits})
    told = of_ranks(error, 3, 5.0, lambda me: 1)
    assert str(told) == "TypeError: no len() (rank 0)", "no line: it is a judge's"
    assert "step.py" not in told.story
    assert "Recorder" not in told.story
    assert "rank 1  also failed: KeyError: lost at cell, line 9" in told.story
    assert "rank 2  runs on, at cell, line 3" in told.story


def test_what_is_raised_outside_of_the_answer_is_the_same_only_in_the_same_words():
    def told_of(*messages):
        failures = {
            rank: Failure(rank, "raised", (Cause("TypeError", message, (of_the_judges(4),)),), float(rank))
            for rank, message in enumerate(messages)
        }
        return str(of_ranks(RankFailed("", failures=failures), 2, 5.0, lambda me: 1))

    assert told_of("no len()", "no item 3") == "TypeError: no len() (rank 0)"
    assert told_of("no len()", "no len()") == "TypeError: no len() (on every rank)"


def test_a_line_of_an_example_stands_for_a_learners():
    from course_lib.learn.exercises.lesson_08.step import take_step

    raised = Failure(0, "raised", (Cause("TypeError", "no len()", (of_the_judges(4),)),), 0.0)
    told = of_ranks(RankFailed("", failures={0: raised}), 2, 5.0, take_step)
    assert told.line == 4


def test_an_operation_that_a_device_lacks_is_an_error_and_no_stub():
    def answer(me):
        return torch.empty(2, device="meta").tolist()

    verdict = judged(of(2), answer)
    assert verdict.status == "raised"
    assert "NotImplementedError" in verdict.message
