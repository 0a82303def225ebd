"""How missions stand, and the parts that explorers share, alone."""

from __future__ import annotations

from course_lib.widgets.controls import dropdown, number, status
from course_lib.widgets.mission_progress import MissionProgress


def test_a_mission_that_has_been_reached_stays_so_with_its_first_setting() -> None:
    standing = MissionProgress(["low", "high"])
    lacks = {"low": "", "high": "It is too low."}
    standing.look("setting 1", lacks.__getitem__)
    assert standing.lines(lacks.__getitem__) == [
        "mission 1: reached (setting 1)",
        "mission 2: not yet. It is too low.",
    ]
    assert str(standing) == "missions reached: 1 of 2"
    lacks = {"low": "It is too high.", "high": ""}
    standing.look("setting 2", lacks.__getitem__)
    assert standing.lines(lacks.__getitem__) == [
        "mission 1: reached (setting 1)",
        "mission 2: reached (setting 2)",
    ]
    standing.look("setting 3", lambda _: "")
    assert "setting 3" not in "".join(standing.lines(lambda _: ""))
    assert str(standing) == "missions reached: 2 of 2"


def test_what_is_said_is_plain_text_to_a_screen_reader() -> None:
    assert status("a < b", "<b>c</b>") == "<div role='status'>a &lt; b<br>&lt;b&gt;c&lt;/b&gt;</div>"


def test_controls_start_where_they_are_told_and_keep_to_their_bounds() -> None:
    ranks = number("ranks", 4, (2, 8), width="9em")
    assert (ranks.value, ranks.min, ranks.max, ranks.description) == (4, 2, 8, "ranks")
    ranks.value = 99
    assert ranks.value == 8
    way = dropdown("way", [("a ring", "ring"), ("a tree", "tree")], "tree")
    assert (way.value, way.label, way.description) == ("tree", "a tree", "way")
