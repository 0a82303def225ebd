"""Texts of other people: nothing in them steers a terminal, hides, or turns the direction of writing."""

from __future__ import annotations

import doctest
import unicodedata

import pytest

from course_lib.base import foreign_text
from course_lib.base.foreign_text import cleaned, is_plain, on_a_page, one_line

UNSEEN = [chr(code) for code in range(0x20000) if unicodedata.category(chr(code)) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
UNSEEN += [
    "\ue000",
    "\U000e0041",
    "\U000e0001",
    "\ufe0f",
    "\u3164",
    "\u115f",
    "\u2800",
    "\u034f",
    "\U000e0100",
]


def test_no_sign_that_cannot_be_seen_comes_through():
    shown = one_line("".join(f"a{sign}b" for sign in UNSEEN), most=10**6)
    assert set(shown) <= set("ab? ")
    assert shown.isprintable()


@pytest.mark.parametrize(
    "steering", ["\x1b]0;pwned\x07", "\x1b[2J", "\x9b2J", "\r", "\n", "\x08" * 9, "\u202e", "\u2066"]
)
def test_what_steers_a_terminal_is_gone(steering):
    shown = one_line(f"before{steering}after")
    assert not set(shown) & set("\x1b\x9b\x07\x08\r\n\u202e\u2066")
    assert shown.startswith("before")
    assert shown.endswith("after")


def test_two_names_that_look_alike_are_one():
    assert one_line("Ada\u200b") == one_line("A\u00adda") == one_line(" Ada\ufeff ") == "Ada"


@pytest.mark.parametrize("honest", ["Ada Lovelace", "Zoë", "Ελένη", "李雷", "עדה", "naïve – “so”", "µs", "1.5 × 10³ B"])
def test_what_people_write_stays(honest):
    assert one_line(honest) == honest
    assert is_plain(honest)


def test_a_long_text_and_a_tower_of_marks_are_cut():
    assert len(one_line("x" * 10**7)) == foreign_text.LONGEST
    assert len(one_line("a" + "\u0301" * 1000)) <= 5


def test_every_text_within_is_cleaned_and_other_values_stay():
    told = {"a\x1b": ["b\u202e", 1, None, {"c": 2.5}], "d": True}
    assert cleaned(told) == {"a?": ["b", 1, None, {"c": 2.5}], "d": True}
    deep = value = []
    for _ in range(100):
        value.append([])
        value = value[0]
    assert "…" in str(cleaned(deep))


def test_a_page_keeps_its_lines():
    assert on_a_page("a\n\tb\u202ec\x1bd\u200de") == "a\n\tb\ufffdc\ufffdd\u200de"


def test_the_example():
    assert doctest.testmod(foreign_text).failed == 0
