"""Numbers as text: no digit that another machine may round otherwise, and no equality near its tolerance."""

from __future__ import annotations

import math

import pytest
import torch

from course_lib.rounding import STRICT, UncertainError, agree, rounded


@pytest.fixture
def strict(monkeypatch):
    monkeypatch.setenv(STRICT, "strict")


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [
        (5.0799, 2, "5.08"),
        (5, 1, "5.0"),
        (-0.0001, 2, "0.00"),  # a zero has no sign: which one it has is rounding
        (torch.tensor(-1e-9), 3, "0.000"),
        ([5.567, torch.tensor(5.367)], 1, "[5.6, 5.4]"),
        (torch.tensor([[1.26, 2.0], [3.0, -4.0]]), 1, "[[1.3, 2.0], [3.0, -4.0]]"),
        (-3875.4, -2, "-3900"),
        (-3.0, -2, "0"),
        ((), 2, "[]"),
        ({"a": 1.23}, 1, "{a: 1.2}"),
        ([math.nan, math.inf, -math.inf], 2, "[nan, inf, -inf]"),
    ],
)
def test_numbers_are_told_to_the_decimals_asked_for(strict, value, decimals, text):
    assert rounded(value, decimals) == text


def test_a_number_near_where_rounding_goes_up_is_refused_while_a_lesson_is_built(strict):
    with pytest.raises(UncertainError, match=r"5\.07996 to 4 decimals.*Certain: 2 decimals"):
        rounded(5.07996, 4)
    assert rounded(5.07996, 2) == "5.08"


def test_numbers_told_together_are_as_sure_as_the_largest_of_them(strict):
    assert rounded(56.47, 0) == "56"
    with pytest.raises(UncertainError, match="Certain: -2 decimals"):
        rounded([56.47, -3875.35], 0)


def test_what_was_computed_in_16_bits_is_less_sure(strict):
    assert rounded(torch.tensor(5.08), 2) == "5.08"
    for dtype in (torch.bfloat16, torch.float16):
        with pytest.raises(UncertainError):
            rounded(torch.tensor(5.08, dtype=dtype), 2)
        with pytest.raises(UncertainError):
            rounded([1.0, torch.tensor(5.08, dtype=dtype)], 2)


def test_who_knows_better_says_so(strict):
    with pytest.raises(UncertainError):
        rounded(129.46002, 4)
    assert rounded(129.46002, 4, apart=1e-10) == "129.4600"
    with pytest.raises(UncertainError):
        rounded(5.084, 2, apart=1e-3)
    with pytest.raises(ValueError, match=r"apart is 0.0; it must be a finite number above zero"):
        rounded(1.0, 2, apart=0.0)


def test_a_learners_own_numbers_may_lie_where_they_like(monkeypatch):
    monkeypatch.delenv(STRICT, raising=False)
    assert rounded(5.07995, 4, apart=1e-3) in ("5.0799", "5.0800")
    assert agree([1.0], [1.00001], within=1e-5) in (True, False)


def test_what_is_no_number_is_refused():
    for value in ("5.08", None, True, [1.0, "2"]):
        with pytest.raises(TypeError, match="is no number; give numbers, tensors, or lists of them"):
            rounded(value, 2)


def test_results_agree_to_within_a_share_of_the_largest(strict):
    right = torch.tensor([1000.0, 0.0])
    assert agree(right + torch.tensor([0.0, 1e-3]), right, within=1e-5)  # a zero needs no tolerance of its own
    assert not agree(right + torch.tensor([0.0, 1.0]), right, within=1e-5)
    assert agree({"a": [1.0, 2]}, {"a": (1.0, 2.0)}, within=1e-9)
    assert agree([], [], within=1e-9)
    assert agree(0.0, 0.0, within=1e-9)
    assert not agree(1e-30, 0.0, within=1e-9)


def test_what_is_not_finite_agrees_with_its_like_alone(strict):
    assert agree([math.inf, 1.0], [math.inf, 1.0], within=1e-5)
    for value, other in ((math.inf, -math.inf), (math.inf, 1.0), (1.0, math.inf), (math.nan, math.nan)):
        assert not agree([value, 1.0], [other, 1.0], within=1e-5)


def test_an_answer_near_its_tolerance_is_refused_while_a_lesson_is_built(strict):
    for off in (0.5e-5, 2e-5):
        with pytest.raises(UncertainError, match=r"within=\d"):
            agree(1.0 + off, 1.0, within=1e-5)
    with pytest.raises(UncertainError, match=r"within=8e-05 says True"):
        agree(1.0 + 1e-5, 1.0, within=1e-5)
    assert agree(1.0 + 1e-5, 1.0, within=8e-5)


@pytest.mark.parametrize(
    ("value", "other", "sentence"),
    [
        ([1.0, 2.0], [1.0], "2 numbers beside 1: give two of one length"),
        (1.0, [1.0], "only one of the two is a list or a dict: give two of one shape"),
        ({"a": 1.0}, {"b": 1.0}, "only one of the two has a, b: give two of the same keys"),
        ({"a": [1.0]}, {"a": 1.0}, "only one of the two is a list or a dict at 'a'"),
        ([[1.0], [1.0]], [[1.0], [1.0, 2.0]], "1 numbers beside 2"),
    ],
)
def test_results_of_other_shapes_are_refused(value, other, sentence):
    with pytest.raises(ValueError, match=sentence):
        agree(value, other, within=1e-5)
