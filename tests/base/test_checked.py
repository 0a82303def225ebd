"""``@checked``: hints become sentences, and nothing else about a function changes."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import pytest

from course_lib import schedules
from course_lib.base.checked import Int64, WrongKind, checked, checked_before, fits
from course_lib.learn.sandbox.call_watcher import watch


class HasWidth(Protocol):
    width: int


class Wide:
    width = 3


@checked
def take(
    count: int = 1,
    share: float = 0.5,
    *,
    name: str | None = None,
    sizes: Sequence[int] = (),
    rows: Int64 | None = None,
) -> int:
    """Doc."""
    return count


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            {"count": "4"},
            r"count='4' does not work: count is a whole number .*\. The nearest that works is 4\.",
        ),
        ({"count": 2.6}, r"count=2\.6 .* The nearest that works is 3\."),
        ({"count": True}, "count=True does not work"),
        ({"count": 10**61}, "count=10+ does not work: count is a whole number of at most 60 digits"),
        ({"count": 10**400}, "count=10+ .* does not work: count is a whole number of at most 60 digits"),
        (
            {"rows": 2**63},
            "rows=9223372036854775808 does not work: rows is a whole number of at most 64 bits",
        ),
        (
            {"rows": "4"},
            r"rows='4' does not work: .* of at most 64 bits or None\. The nearest that works is 4\.",
        ),
        ({"share": float("nan")}, r"share=nan does not work: share is a number\.$"),
        ({"share": 10**400}, r"share=10+ \.\.\. does not work"),
        ({"name": 5}, r"name=5 does not work: name is a text or None\.$"),
        ({"sizes": [1, "x", 3]}, r"sizes\[1\]='x' does not work: sizes\[1\] is a whole number"),
        (
            {"sizes": "12"},
            r"sizes='12' does not work: sizes is a row of values .* each\)\. The nearest .* is \[12\]\.",
        ),
        ({"sizes": 3}, r"sizes=3 does not work: sizes is a row .* The nearest that works is \[3\]\."),
    ],
)
def test_what_a_hint_does_not_allow_gets_a_sentence(given, told):
    for kind in (WrongKind, TypeError, ValueError):
        with pytest.raises(kind, match=told):
            take(**given)


@pytest.mark.parametrize(
    ("value", "hint", "fit"),
    [
        (np.int64(3), int, True), (np.float32(3), float, True), (3, float, True), (float("inf"), float, True),
        (2**64, int, True), (-(10**60), int, True), (10**61, int, False), (2**64, float, True),
        (2**63 - 1, Int64, True), (-(2**63), Int64, False), ([2**63], Sequence[Int64], False), (True, Int64, False),
        (3.0, int, False), (None, int, False), (np.bool_(True), bool, True), (1, bool, False),
        ("a", Literal["a", "b"], True), ("c", Literal["a", "b"], False),
        (len, Callable[[int], int], True), (5, Callable[[int], int], False),
        ({}, Mapping[str, int], True), ([], Mapping[str, int], False),
        ({1}, Iterable[int], True), ({1}, Sequence[int], False), (iter(()), tuple[int, ...], False),
        ((1, 2), tuple[int, int], True), ((1, 2, 3), tuple[int, int], False), ([[1.0]], Sequence[Sequence[int]], False),
        (Wide(), HasWidth, True), (5, HasWidth, False), (5, "unknown", True),
    ],
)  # fmt: skip
def test_what_fits_which_hint(value, hint, fit):
    assert fits(value, hint) is fit


def test_a_function_stays_what_it_is():
    assert take(np.int64(7)) == 7
    assert (take.__name__, take.__doc__) == ("take", "Doc.")
    assert list(inspect.signature(take).parameters) == ["count", "share", "name", "sizes", "rows"]
    assert pickle.loads(pickle.dumps(take)) is take
    with pytest.raises(TypeError, match="unexpected keyword argument 'x'"):
        take(x=1)


def test_a_dataclass_is_checked_when_it_is_made():
    @checked
    @dataclass(frozen=True)
    class Row:
        size: int

    assert Row(3) == Row(3)
    with pytest.raises(WrongKind, match="size='3' does not work"):
        Row("3")


def test_a_watch_tells_checked_functions_apart():
    def answer():
        return schedules.placement(2)

    with watch(("course_lib.schedules.gpipe",)) as called:
        answer()
    assert not called
    with watch(("course_lib.schedules.gpipe",)) as called:
        schedules.gpipe(2, 2)
    assert set(called) == {"course_lib.schedules.gpipe"}


def test_a_table_that_nobody_could_wait_for_is_refused():
    with pytest.raises(ValueError, match=r"would make a table of 2,000,000,000 cells; a table takes at most 1,000,000"):
        schedules.gpipe(2, 10**9)


def test_a_hint_that_allows_everything_refuses_nothing():
    @checked
    def place(device: Any = None, thing: object = None) -> Any:
        return device

    assert place(device="cpu", thing=3) == "cpu"
    assert place(None) is None


def test_a_loop_of_our_own_is_not_checked_again_and_what_follows_is():
    @checked
    def half(number: int) -> float:
        return number / 2

    with checked_before():
        assert half(1.5) == 0.75
        with pytest.raises(TypeError):  # Python's own, as anywhere
            half()
    with pytest.raises(WrongKind):
        half(1.5)


def test_the_planner_checks_at_its_face():
    from course_lib.plan import Constants, Software, cluster_of, list_layouts

    with pytest.raises(WrongKind, match="job="):
        list_layouts("gpt-2", cluster_of("8xh100"), Constants(), Software())
    with pytest.raises(WrongKind):  # and the face of what the loop calls is a face still
        cluster_of(8)
