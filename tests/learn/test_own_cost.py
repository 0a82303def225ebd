"""What the learner's own cost, in a reveal: told of the run that it made, and not at all where it made none."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

from course_lib.learn import ask, reveal
from course_lib.learn.predictions.own_cost import cost_in_words
from course_lib.meter import metered


def one_call(me):
    dist.all_reduce(torch.ones(1024))


def two_calls(me):
    for part in torch.ones(2, 512):
        dist.all_reduce(part)


def test_calls_and_bytes_of_metered_runs_are_told_the_learners_first(cluster2):
    runs = {"the course's": metered(cluster2, one_call), "yours": metered(cluster2, two_calls)}
    said = cost_in_words(runs)
    assert said == ("What it cost a rank: yours made 2 calls and sent 4 KiB; the course's made 1 call and sent 4 KiB.")
    assert cost_in_words({name: run.communication for name, run in runs.items()}) == said


def test_bytes_that_a_rank_held_and_numbers_of_a_step_are_told():
    assert cost_in_words({"the course's": 1024, "yours": 2048}) == (
        "What it cost a rank: yours held 2 KiB; the course's held 1 KiB."
    )
    assert "yours made 3 calls and sent 6 B;" in cost_in_words({"the course's": (1, 6), "yours": (3, 6)})


def test_without_a_run_of_the_learners_nothing_is_told():
    assert cost_in_words({"the course's": 1024}) == ""
    assert cost_in_words({}) == ""


@pytest.mark.parametrize("run", ["4 KiB", (1,), (1, "2"), None, True])
def test_what_tells_no_cost_is_refused_in_a_sentence(run):
    with pytest.raises(ValueError, match="tells no cost; give a metered run, its communication, "):
        cost_in_words({"yours": run})
    with pytest.raises(ValueError, match=r"is no runs by name; give what mine\.beside gave"):
        cost_in_words(run)


def test_a_reveal_tells_it_and_is_else_as_it_was():
    ask("04.pieces").reset()
    plain = reveal("04.pieces", 4.0, 1024)
    assert reveal("04.pieces", 4.0, 1024, beside={"the course's": (4, 4096)}) == plain
    told = reveal("04.pieces", 4.0, 1024, beside={"the course's": (4, 4096), "yours": (8, 8192)})
    sentence = "What it cost a rank: yours made 8 calls and sent 8 KiB; the course's made 4 calls and sent 4 KiB."
    assert sentence in repr(told)
    assert sentence in told._html()
    assert dataclasses.replace(told, yours="") == plain
    ask("04.pieces").reset()


def test_a_run_with_a_communication_is_taken_as_it_is():
    with pytest.raises(ValueError, match="tells no cost"):
        cost_in_words({"yours": SimpleNamespace(communication=None)})
