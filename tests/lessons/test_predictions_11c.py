"""What part c of lesson 11 tells after a run: right beside plausible runs, frank where evidence is blurred."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from sick_evidence import made

from course_lib.learn import ask, reveal
from course_lib.learn.exercises.lesson_11.predictions.sick import SICK
from course_lib.learn.exercises.lesson_11.predictions.sick_clues import BLURRED, cleared, clues_of
from course_lib.learn.sick.sick_runs.cases import CASES, SLOW, SUSPECTS, UNEVEN
from course_lib.learn.sick.sick_runs.job import MIB

ASKED = {asked.name: asked for asked in SICK}
RUN = {f"11.run_{name.lower()}": made(name) for name in CASES}


def right(name):
    return CASES[RUN[name].name].fault


@pytest.fixture(autouse=True)
def nothing_predicted():
    for name in ASKED:
        ask(name).reset()
    yield
    for name in ASKED:
        ask(name).reset()


def test_every_run_is_asked_about():
    assert set(ASKED) == set(RUN)


@pytest.mark.parametrize("name", ASKED)
def test_a_run_is_told_as_it_was(name):
    assert ASKED[name].tell(RUN[name]).measured == right(name)


@pytest.mark.parametrize("name", ASKED)
def test_a_misreading_is_an_answer_that_can_be_given_and_is_wrong(name):
    for wrong, sentence in ASKED[name].tell(RUN[name]).misreadings.items():
        ask(name).reset()
        ask(name).commit(wrong)
        shown = reveal(name, RUN[name])
        assert not shown.is_right
        assert shown.misreading == sentence


@pytest.mark.parametrize("name", RUN)
def test_every_wrong_choice_hears_why(name):
    assert set(ASKED[name].tell(RUN[name]).misreadings) == set(SUSPECTS) - {right(name)}


@pytest.mark.parametrize("name", RUN)
def test_what_clears_a_suspect_is_seen_in_the_evidence(name):
    """None of the marks that a suspect would leave is there, but for those of the one whose run it is."""
    clues = clues_of(RUN[name])
    marked = {suspect for suspect in SUSPECTS[:6] if clues.shows(suspect)}
    assert marked == {right(name)}
    assert clues.fullest < 0.8


@pytest.mark.parametrize("name", RUN)
def test_numbers_of_a_sentence_are_those_of_the_run(name):
    seen, clues = RUN[name], clues_of(RUN[name])
    numbers = {
        "tensor parallelism goes from node to node": clues.crossing_calls,
        "batches are not read fast enough": round(100 * clues.most_reading),
        "memory is full, and is made free and taken again": round(100 * clues.fullest),
    }
    for suspect, number in numbers.items():
        assert re.search(rf"\b{number}\b", cleared(suspect, seen)), (suspect, cleared(suspect, seen))


def test_a_run_without_the_marks_of_its_fault_is_called_blurred():
    for name in CASES:
        blurred = made("0", name=name)
        assert "it is hard to see" in ASKED[f"11.run_{name.lower()}"].tell(blurred).because
        assert "it is hard to see" not in ASKED[f"11.run_{name.lower()}"].tell(made(name)).because


def test_a_suspect_whose_marks_are_there_by_chance_is_not_cleared():
    slow = made("F", name="B")
    assert BLURRED in cleared(SLOW, slow)
    assert BLURRED not in cleared(SLOW, made("B"))


def test_why_the_layers_are_not_cut_unevenly():
    assert "They hold 20.0 MiB." in cleared(UNEVEN, made("E"))
    held = tuple(round(size * MIB) for size in (11, 11, 11, 7))
    assert "7.0 to 11.0 MiB: a later stage keeps fewer" in cleared(UNEVEN, replace(made("B"), memory_bytes=held))
    held = tuple(round(size * MIB) for size in (10, 10, 8, 8))
    said = cleared(UNEVEN, replace(made("F"), memory_bytes=held))
    assert "rank 2 has the longest bars, and it holds 8.0 MiB; the others hold 8.0 to 10.0 MiB." in said


def test_what_is_said_of_the_runs():
    because = {name: ASKED[f"11.run_{name.lower()}"].tell(made(name)).because for name in CASES}
    assert "on rank 2" in because["F"]
    assert "3.0 times a forward" in because["C"]
    assert "one rank has 16 calls to the other node" in because["D"]
