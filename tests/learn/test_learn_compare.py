"""The first difference, in words, for the values that exercises use."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch

from course_lib.learn.catalogue.exercise import AnswerOutcome
from course_lib.learn.display.repr_cleanup import folded
from course_lib.learn.judging.compare import Difference, close_to, difference, short

SAME = [
    (3, 3),
    (3, 3.0),
    (0.1 + 0.2, 0.3),
    (3, torch.tensor(3)),
    (3, np.int64(3)),
    ([1, 2], (1, 2)),
    ([0, 1, 2], range(3)),
    ([[0], [1]], [(0,), (1,)]),
    ([1, 2], torch.tensor([1, 2])),
    ({1, 2}, [2, 1]),
    ({"a": 1}, {"a": 1.0}),
    (float("nan"), float("nan")),
    (None, None),
    (True, True),
    ("rank", "rank"),
    (torch.ones(2, 3), torch.ones(2, 3)),
    (torch.ones(2), torch.ones(2) * (1 + 1e-6)),
    (torch.tensor([1.0, float("nan")]), torch.tensor([1.0, float("nan")])),
    (torch.ones(2, requires_grad=True), torch.ones(2)),
    (torch.arange(3), [0, 1, 2]),
    (torch.tensor(2.0), 2.0),
]


@pytest.mark.parametrize(("expected", "got"), SAME)
def test_no_difference(expected, got):
    assert difference(expected, got) == ""


DIFFERENT = [
    (3, 4, "expected 3, got 4"),
    (3, "3", "expected the number 3, got '3'"),
    (1, True, "expected the number 1, got True"),
    (True, 1, "expected True, got 1"),
    (3, None, "nothing came back"),
    ([1, 2], [1, 3], "item 1: expected 2, got 3"),
    ([1, 2], [1], "expected 2 items, [1, 2], got 1, [1]"),
    ([1, 2], 5, "expected 2 items, [1, 2], got 5"),
    (["a"], "a", "expected 1 items, ['a'], got 'a'"),
    ([[0, 1], [2]], [[0], [1, 2]], "item 0: expected 2 items, [0, 1], got 1, [0]"),
    ({"a": 1}, {"b": 1}, "the keys differ: missing ['a']; too many ['b']"),
    ({"a": [1]}, {"a": [2]}, "under 'a': item 0: expected 1, got 2"),
    ({1, 2}, [1, 1], "expected {1, 2}, got [1, 1]"),
    (torch.ones(2, 3), torch.ones(3, 2), "expected the shape (2, 3), got (3, 2)"),
    (torch.ones(2), torch.ones(2).double(), "expected the type torch.float32, got torch.float64"),
    (torch.ones(2, 2), torch.eye(2), "at [0, 1]: expected 1.0, got 0.0; 1 more of 4 values differ"),
    (torch.arange(2), torch.tensor([0, 5]), "at [1]: expected 1, got 5"),
    (torch.ones(2), "x", "expected a tensor of shape (2,), got 'x'"),
    (float("nan"), 1.0, "expected nan, got 1.0"),
]


@pytest.mark.parametrize(("expected", "got", "words"), DIFFERENT)
def test_the_first_difference_is_told(expected, got, words):
    assert difference(expected, got).startswith(words)


def test_a_tolerance_may_be_given():
    assert difference(1.0, 1.01)
    assert close_to(0.02)(1.0, 1.01) == ""
    assert close_to(0.02)(torch.ones(2), torch.full((2,), 1.01)) == ""
    assert close_to(0.02)([1.0, 1.0], [1.01, 1.05]) == "item 1: expected 1.0, got 1.05"


def test_values_are_shortened():
    assert short(list(range(100))) == "[0, 1, 2, 3, 4, 5, 6, 7, ...]"
    assert short(torch.zeros(3, 4)) == "tensor of shape (3, 4), [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]"
    assert short(torch.tensor(2.5)) == "2.5"
    assert short(np.arange(2)) == "array of shape (2,), [0, 1]"
    assert len(short("x" * 1000)) < 100


class Thing:
    def method(self): ...


def a_function(): ...


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (a_function, "the function a_function"),
        (lambda: 3, "a lambda"),
        (Thing(), "a Thing object"),
        (Thing, "the class Thing"),
        (Thing().method, "the method method"),
        ([1, Thing()], "[1, a Thing object]"),
        (print, "the function print"),
        ((n for n in range(3)), "a generator"),
    ],
)
def test_objects_are_named_without_an_address(value, said):
    assert short(value) == said
    assert folded(f"got {value!r}, which") == f"got {said}, which"


@pytest.mark.parametrize("text", ["a < b and c > d", "[1, 2, 3]", "rank 0 of <2> at 0x1f", "{" + "1" * 300])
def test_other_text_stays_as_it_is(text):
    assert folded(text) == text


def test_a_long_list_in_a_message_is_cut_short():
    numbers = list(range(200))
    said = folded(f"cut as {numbers} gives {[[1, 2]]}")
    assert said.startswith("cut as [0, 1, 2, 3,")
    assert said.endswith(", ... ] gives [[1, 2]]")
    assert len(said) < 200
    nested = folded(f"{[[n, n] for n in range(100)]}")
    assert nested.endswith(", ... ]")
    assert len(nested) < 200


def test_a_difference_carries_its_kind_through_a_process_and_reads_as_its_words():
    made = Difference("rank 1 gave nothing", "nothing")
    came = pickle.loads(pickle.dumps(made))
    assert (came, came.kind) == ("rank 1 gave nothing", "nothing")
    assert AnswerOutcome("two ranks", 1, difference=came).kind_of_difference == "nothing"
    assert AnswerOutcome("two ranks", 1, difference="rank 1 gave nothing").kind_of_difference == ""
