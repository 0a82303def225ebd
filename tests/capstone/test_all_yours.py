"""Level 4: every strategy that runs is the learner's, by what was called; the report says whose lines ran."""

from __future__ import annotations

import inspect
from dataclasses import replace

import all_yours
import cheats
import pytest
from answers.lesson_14.right.own import Piped, by_hand
from test_capstone_cheats import JOB

from course_lib.capstone.attempts.attempting import attempt
from course_lib.capstone.jobs.job import job_for
from course_lib.capstone.reports.code_rows import whose_code
from course_lib.capstone.reports.reports import record_of
from course_lib.capstone.running.whose_code import shape_of
from course_lib.parallel.data.naive_ddp import all_reduce_gradients, broadcast_parameters

FOURTH = replace(JOB, level=4, memory_bytes=4_000_000)

TOLD = {
    "ByTheCourse": ("called all_reduce_gradients, which is the course's", "mine.MyDDP"),
    "ByItsText": ("in mine_alone.py does step by step what all_reduce_gradients of the course", "mine.MyDDP"),
    "TellsTheOraclesLoss": (
        "called on_one_device, which is the course's",
        "the loss that your own ranks compute",
    ),
    "UnderAnotherName": ("called all_reduce_gradients, which is the course's", "Allowed is"),
    "ByMineThatIsNotYours": ("called MyDDP.__init__, which is the course's", "once its check has passed"),
    "ByDdp": ("which is PyTorch's (torch/nn/parallel/distributed.py)", "mine.MyDDP"),
    "ByZero": ("which is PyTorch's (torch/distributed/optim/", "mine.MyShardedOptimizer"),
    "Unwatched": ("listens to Python's calls in place of the judge", "nobody knows"),
    "InARawThread": ("called all_reduce_gradients, which is the course's", "mine.MyDDP"),
}


def run_of(name):
    def assemble(me, task):
        return getattr(all_yours, name)(me, task)

    return assemble


@pytest.mark.first_cases(3)
@pytest.mark.parametrize("name", TOLD)
def test_a_strategy_of_another_is_told_at_level_four(clusters, name):
    result = attempt(FOURTH, run_of(name), clusters(2), num_timed=1, show=False)
    assert not result.ended, result.story
    said = " ".join(fault.sentence for fault in result.faults if fault.name == "not your own")
    assert all(words in said for words in TOLD[name]), result.faults
    assert (result.total, result.passed) == (0, False)


def test_what_is_your_own_passes_and_its_lines_are_told(clusters):
    result = attempt(FOURTH, run_of("Own"), clusters(2), num_timed=1, show=False)
    assert (result.ended, result.faults) == ("", ())
    assert result.passed
    by_name = {one.name: one for one in result.code}
    first = inspect.getsourcelines(all_yours.Own.step)[1]
    assert by_name["Own.step"].lines == tuple(range(first + 1, first + 7))
    assert by_name["Own.step"].num_lines == 6
    assert {one.whose for one in result.code} == {"yours"}
    assert "No strategy of the course's or of PyTorch's was called." in str(whose_code(result))
    assert f"{first + 1}-{first + 6} (6 of 6)" in str(whose_code(result))
    assert record_of(result).code[0][0] == "yours"


def test_below_level_four_others_may_stand_in_and_the_report_says_where(clusters):
    result = attempt(JOB, run_of("ByTheCourse"), clusters(2), num_timed=1, show=False)
    assert result.faults == ()
    theirs = [one for one in result.code if one.whose == "the course's"]
    assert theirs[0].called.startswith("line ")
    assert "functions of strategies that are the course's" in str(whose_code(result))


def test_an_import_says_nothing(clusters):
    def imports(me, task):

        import course_lib.parallel.data.distributed_data_parallel  # noqa: F401

        return all_yours.Own(me, task)

    result = attempt(FOURTH, imports, clusters(2), num_timed=1, show=False)
    assert result.faults == ()
    assert {one.whose for one in result.code} == {"yours"}


def test_a_kept_result_is_none_of_the_next_attempt(clusters):
    """Each attempt draws its batch: losses and weights of an earlier one are wrong."""
    before = attempt(FOURTH, run_of("Own"), clusters(2), num_timed=1, show=False)
    losses = list(before.values.losses)

    def keeps(me, task):
        run, number = all_yours.Own(me, task), iter(losses)
        run.mean = lambda loss: next(number)
        return run

    again = attempt(FOURTH, keeps, clusters(2), num_timed=1, show=False)
    assert again.batch_seed != before.batch_seed
    assert again.job == FOURTH
    assert again.values.wrong_loss
    assert not again.passed


def test_a_short_function_is_nobodys_copy():
    assert shape_of(cheats.Honest.mean.__code__) == ""
    assert shape_of(all_reduce_gradients.__code__) not in ("", shape_of(broadcast_parameters.__code__))


def test_the_answer_of_a_learner_passes_level_four(clusters):
    def assemble(me, task):
        return by_hand(me, task)

    result = attempt(job_for(4, 7), assemble, clusters(4), num_timed=1, show=False)
    assert (result.ended, result.faults) == ("", ())
    assert result.passed, str(result)
    assert {one.whose for one in result.code} == {"yours"}
    assert result.words == "pp=2 dp_replicate=2"


def test_names_of_meshes_are_told_once_a_run_has_passed(clusters):
    class Late(Piped):
        num_parts = 1  # no micro-batches: each node waits for the other

    def assemble(me, task):
        return Late(me, task)

    result = attempt(job_for(4, 7), assemble, clusters(4), num_timed=1, show=False)
    assert result.is_right
    assert not result.passed
    assert "pp=2 dp_replicate=2" not in str(result).partition("\n")[2]
    assert "a mesh that the result names once a run of yours passes" in str(result)
