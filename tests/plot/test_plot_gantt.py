"""Where the labels of a chart of spans stand: where they can be seen."""

from __future__ import annotations

from course_lib.meter.clocks.timeline import Span
from course_lib.plot import gantt


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
