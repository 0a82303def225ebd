"""What a verdict shows as printed: a person's lines and warnings, and nothing of PyTorch's or ours."""

from __future__ import annotations

import os
import sys
import warnings
from warnings import warn

import numpy as np
import pytest
import torch
import torch.distributed as dist

from course_lib.learn.catalogue.exercise import Case, Exercise
from course_lib.learn.checks.checking import judged
from course_lib.learn.judging.isolated_judge import by_cases_apart
from course_lib.learn.judging.judge import by_cases, by_ranks
from course_lib.learn.sandbox.output_filter import own_lines

pytestmark = pytest.mark.xdist_group("cluster")

CASE = [Case("nothing", (), None)]


def printed_by(judge, answer):
    exercise = Exercise(name="99.text", title="", judge=judge, mistakes=(), hints=("a", "b", "c"))
    return judged(exercise, answer).printed


def noisy(me=None):
    print("a line")
    print("an error", file=sys.stderr)
    warnings.warn("my own", stacklevel=1)
    warn("mine too", stacklevel=1)
    torch.tensor(torch.ones(2))  # C warns in the name of this line
    torch.nn.functional.mse_loss(torch.ones(2), torch.ones(2, 1))  # so does Python, by its stack level
    locked = np.ones(2)
    locked.setflags(write=False)
    torch.from_numpy(locked)


JUDGES = {"here": by_cases(CASE), "apart": by_cases_apart(CASE), "on ranks": by_ranks([1], CASE)}


@pytest.mark.parametrize("where", JUDGES)
def test_what_a_person_prints_and_warns_of_stays_and_what_pytorch_says_does_not(where):
    printed = printed_by(JUDGES[where], noisy)
    for words in ("a line", "an error", "UserWarning: my own", "UserWarning: mine too"):
        assert printed.count(words) == 1, printed
    for words in ("copy construct", "target size", "not writable", "Triggered"):
        assert words not in printed


def leaves_a_message(me):
    print("before")
    dist.isend(torch.ones(1), (me.rank + 1) % me.world_size)
    os.write(2, b"[rank0]:[W1122 05:22:20.616094197 init.cpp:3955] Warning: an API is deprecated (function f)\n")
    os.write(1, b"[E not of C++] kept\n")


def test_lines_of_cpp_and_of_ours_are_not_what_an_answer_printed():
    printed = printed_by(by_ranks([2], CASE), leaves_a_message)
    assert printed == "".join(f"rank {r} | before\nrank {r} | [E not of C++] kept\n" for r in (0, 1))


def test_what_ranks_printed_before_one_died_is_kept_without_the_last_words_of_cpp():
    def dies(me):
        print("before")
        dist.send(torch.ones(4), 1) if me.rank == 0 else dist.recv(torch.ones(2), 0)

    printed = printed_by(by_ranks([2], CASE), dies)
    assert "rank 1 | before" in printed
    assert "terminate called" not in printed
    assert "what():" not in printed


def test_warnings_of_the_lessons_own_examples_are_not_shown():
    from course_lib.learn import exercises

    loss = exercises.exercise("08.loss")
    differentiates = next(mistake for mistake in loss.mistakes if mistake.name == "largest-not-detached")
    verdict = judged(loss, differentiates.example)
    assert verdict.mistake == "largest-not-detached"
    assert verdict.printed == ""


def test_filters_are_as_they_were_afterwards():
    before = (list(warnings.filters), warnings.showwarning)
    printed_by(JUDGES["here"], lambda: warnings.simplefilter("error"))
    assert (list(warnings.filters), warnings.showwarning) == before


def test_only_lines_that_cpp_begins_are_left_out():
    text = "epoch 1\n[W0718 12:00:00.123 ProcessGroup.cpp:5] Warning: no\nframe #0: c10::Error\n[W] mine\nend"
    assert own_lines(text) == "epoch 1\n[W] mine\nend"
