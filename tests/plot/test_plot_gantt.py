"""Where the labels of a chart of spans stand: where they can be seen."""

from __future__ import annotations

import pytest

from course_lib.meter.clocks.timeline import Span
from course_lib.plot import Picture, gantt, gantt_beside


def labels(spans: list[Span]) -> list[tuple[str, float]]:
    """Each label with its place on the time axis, in seconds."""
    return [(text.get_text(), text.get_position()[0]) for text in gantt(spans).figure.axes[0].texts]


def test_a_label_stands_in_the_longest_stretch_that_nothing_lies_on() -> None:
    spans = [Span(0, "recv", "recv", 0, 10), Span(0, "send", "send", 3, 5), Span(0, "recv", "recv", 9, 20)]
    assert labels(spans) == [("recv", 7.0), ("send", 4.0), ("recv", 14.5)]


def test_a_label_that_would_be_covered_is_left_out() -> None:
    whole = [Span(0, "outer", "compute", 0, 20), Span(0, "inner", "compute", 0, 20)]
    assert labels(whole) == [("inner", 10.0)]
    halves = [
        Span(0, "outer", "compute", 0, 20),
        *(Span(0, "inner", "compute", at, at + 10) for at in (0, 10)),
    ]
    assert labels(halves) == [("inner", 5.0), ("inner", 15.0)]


def test_spans_of_other_ranks_and_other_bands_cover_nothing() -> None:
    spans = [
        Span(0, "backward", "compute", 0, 20),
        Span(0, "all_reduce", "collective", 5, 15),
        Span(1, "forward", "compute", 0, 20),
    ]
    assert sorted(labels(spans)) == [("all_reduce", 10.0), ("backward", 10.0), ("forward", 10.0)]


def rows(picture: Picture) -> list[str]:
    return [label.get_text() for label in picture.figure.axes[0].get_yticklabels()]


def test_runs_beside_each_other_each_begin_at_zero_and_are_named() -> None:
    one = [Span(0, "forward", "compute", 100.0, 101.0), Span(1, "forward", "compute", 100.5, 101.0)]
    other = [Span(0, "backward", "compute", 7.0, 9.0)]
    picture = gantt_beside({"the course's": one, "yours": other})
    assert rows(picture) == ["rank 0, the course's", "rank 1, the course's", "rank 0, yours"]
    places = {text.get_text(): text.get_position()[0] for text in picture.figure.axes[0].texts}
    assert places["backward"] == 1.0
    assert "rank 0, yours: backward 100%" in picture.alt
    assert picture.figure.axes[0].get_xlim()[1] == 2.0


def test_a_run_alone_is_as_before_and_a_row_may_have_another_word() -> None:
    one = [Span(0, "forward", "compute", 100.0, 101.0), Span(1, "forward", "compute", 100.5, 101.0)]
    assert rows(gantt_beside({"the course's": one})) == rows(gantt(one))
    assert gantt_beside({"the course's": one}).alt == gantt(one).alt
    assert rows(gantt_beside({"yours": one[:1], "mine": one[:1]}, row="device")) == [
        "device 0, yours",
        "device 0, mine",
    ]


def test_a_run_without_spans_has_no_row_and_none_at_all_is_refused() -> None:
    one = [Span(0, "forward", "compute", 0.0, 1.0)]
    assert rows(gantt_beside({"yours": [], "the course's": one})) == ["rank 0, the course's"]
    for nothing in ({}, {"yours": []}):
        with pytest.raises(ValueError, match="the timeline holds no span"):
            gantt_beside(nothing)
