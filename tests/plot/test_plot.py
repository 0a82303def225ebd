"""Pictures: what is drawn is what was given, nothing leaves the frame, no colour stands alone, words agree."""

from __future__ import annotations

import base64
import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.patches import Rectangle
from PIL import Image

from course_lib.meter import LABELS, Balance, Entry, History, Span, StepSplit
from course_lib.plot import MemoryBoard, Picture, gantt, lines, memory_and_time_bars, memory_bars, memory_curve
from course_lib.plot.style import LABEL_LOOKS, look_of_span, text_colour

STEP = {"parameter": 1000, "gradient": 1000, "optimizer state": 2000, "activation": 4000}
FULL = {label: 1000 * (index + 1) for index, label in enumerate(LABELS)}
HISTORY = History(
    0,
    ((10, 0, 0, 0, 5, 0, 0), (10, 0, 0, 0, 5, 60, 9), (10, 0, 10, 20, 5, 0, 0)),
    (("forward", 1), ("end", 2)),
)
SPANS = [
    Span(0, "forward", "compute", 5.000, 5.010),
    Span(0, "backward", "compute", 5.010, 5.030),
    Span(1, "gradients", "collective", 5.020, 5.040),
    Span(1, "copy", "recv", 5.025, 5.030),
]


ALONE, SHARED = StepSplit(computing_s=0.020), StepSplit(0.009, 0.003, 0.004)

PICTURES: dict[str, Callable[[], Picture]] = {
    "step bars": lambda: memory_and_time_bars({"one": FULL, "four": STEP}, {"one": ALONE, "four": SHARED}),
    "bars": lambda: memory_bars({"float32": FULL, "a much longer name for a bar": STEP}, title="A", limit_bytes=6000),
    "curve": lambda: memory_curve(HISTORY, title="B"),
    "gantt": lambda: gantt(SPANS, title="C"),
    "lines": lambda: lines({"one": {1: 1.0, 2: 4.0}, "two": ([1, 2], [2, 3])}, x_label="x (s)", y_label="y (B)"),
}


def bars_of(picture: Picture) -> list[tuple[float, float, float]]:
    """Row, left edge and width of each bar."""
    axes = picture.figure.axes[0]
    return [
        (p.get_y() + p.get_height() / 2, p.get_x(), p.get_width()) for p in axes.patches if isinstance(p, Rectangle)
    ]


@pytest.mark.parametrize("name", PICTURES)
def test_nothing_is_cut_off_at_the_edge_of_the_picture(name: str) -> None:
    figure = PICTURES[name]().figure
    figure.canvas.draw()
    frame = figure.bbox.expanded(1.002, 1.002)
    for legend in figure.legends:
        box = legend.get_window_extent()
        assert frame.x0 <= box.x0
        assert box.x1 <= frame.x1
        assert frame.y0 <= box.y0
    for axes in figure.axes:
        for text in (*axes.texts, *labels_in_view(axes.xaxis), *labels_in_view(axes.yaxis), axes.title):
            if text.get_text():
                box = text.get_window_extent()
                assert frame.x0 <= box.x0, text
                assert box.x1 <= frame.x1, text


def labels_in_view(axis: Any) -> list[Any]:
    low, high = sorted(axis.get_view_interval())
    return [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("name", PICTURES)
def test_the_same_data_gives_the_same_bytes_and_a_picture_of_the_right_size(name: str) -> None:
    picture = PICTURES[name]()
    once, twice = picture.png(), PICTURES[name]().png()
    assert once == twice
    image = Image.open(io.BytesIO(once))
    width, height = picture.figure.get_size_inches()
    assert image.size == (int(width * 144), int(height * 144))
    pixels = np.asarray(image)
    assert tuple(pixels[0, 0]) == (255, 255, 255)
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 20


def test_a_notebook_gets_the_image_with_its_size_and_the_words(tmp_path: Path) -> None:
    picture = memory_bars({"now": STEP}, alt="What it shows.")
    data, metadata = picture._repr_mimebundle_()
    assert data["text/plain"] == repr(picture) == "What it shows."
    assert base64.b64decode(data["image/png"]) == picture.png() == picture.save(tmp_path / "a.png").read_bytes()
    assert metadata["image/png"] == {"width": 768, "height": 154, "alt": "What it shows."}


def test_bars_stand_where_the_bytes_say() -> None:
    picture = memory_bars({"a": {"parameter": 10, "activation": 30}, "b": {"activation": 5}})
    assert bars_of(picture) == [(0, 0, 10), (0, 10, 30), (1, 0, 5)]
    colours = [to_rgb(p.get_facecolor()[:3]) for p in picture.figure.axes[0].patches]
    assert colours[1] == colours[2] == to_rgb(LABEL_LOOKS["activation"].colour)


def test_bars_are_stacked_in_the_order_of_the_labels_whatever_the_order_given() -> None:
    picture = memory_bars({"a": {"activation": 30, "parameter": 10}})
    assert bars_of(picture) == [(0, 0, 10), (0, 10, 30)]


def test_alt_text_of_bars_is_made_from_the_numbers() -> None:
    picture = memory_bars({"now": STEP, "empty": {}}, title="Memory of a step", limit_bytes=2**13)
    assert picture.alt == (
        "Memory of a step, stacked bars. now: 7.81 KiB (parameter 1000 B, gradient 1000 B, optimizer state 1.95 KiB, "
        "activation 3.91 KiB); empty: 0 B. The limit is 8 KiB."
    )


def test_bars_take_balances() -> None:
    balance = Balance("after forward", 0, (Entry("activation", "x", 7, "cpu"), Entry("parameter", "w", 3, "cpu")))
    for bars in (balance, [balance], {"after forward": balance}):
        picture = memory_bars(bars)  # type: ignore[arg-type]
        assert bars_of(picture) == [(0, 0, 3), (0, 3, 7)]
        assert [t.get_text() for t in picture.figure.axes[0].get_yticklabels()] == ["after forward"]


@pytest.mark.parametrize(
    ("size", "unit"), [(0, "B"), (800, "B"), (5000, "KiB"), (3 * 2**20, "MiB"), (80 * 2**30, "GiB")]
)
def test_the_axis_names_the_unit_that_fits_and_has_round_ticks(size: int, unit: str) -> None:
    axes = memory_bars({"a": {"activation": size}}).figure.axes[0]
    assert axes.get_xlabel() == f"memory ({unit})"
    names = [float(text.get_text()) for text in axes.get_xticklabels()]
    assert 2 <= len(names) <= 9
    scale = 1024 ** ["B", "KiB", "MiB", "GiB"].index(unit)
    assert [round(tick / scale, 9) for tick in axes.get_xticks()] == names
    assert axes.get_xlim()[1] > size


def test_the_board_redraws_without_leftovers_and_keeps_its_layout() -> None:
    board = MemoryBoard(("kept", "now"), tuple(STEP))
    first = board.draw({"kept": STEP, "now": STEP}, limit_bytes=100)
    picture = board.draw({"kept": {"parameter": 10}, "now": {"activation": 30}})
    assert picture.size == first.size
    assert picture.png() != first.png()
    assert board.draw({"kept": STEP, "now": STEP}, limit_bytes=100).png() == first.png()
    assert "now: 30 B (activation 30 B)" in picture.alt
    with pytest.raises(ValueError, match="this board draws kept, now"):
        board.draw({"now": STEP})
    with pytest.raises(ValueError, match="bytes are 0 or more"):
        board.draw({"kept": {"parameter": -1}, "now": {}})


def test_the_bars_of_the_board_are_as_long_as_the_bytes() -> None:
    """A column of pixels for each: of the blue of parameters, twice as many where there are twice the bytes."""
    image = (
        MemoryBoard(("kept", "now"), ("parameter",)).draw({"kept": {"parameter": 10}, "now": {"parameter": 20}}).image
    )
    blue = (0, 0x72, 0xB2)
    lengths = sorted(sum(image.getpixel((x, y)) == blue for x in range(image.width)) for y in range(0, image.height, 3))
    longest = lengths[-1]
    assert longest > 900  # of 1044 pixels between the axis and the end, with room for the number
    assert any(abs(length - longest / 2) < 6 for length in lengths)


def test_curve_marks_the_peak_and_the_moments() -> None:
    picture = memory_curve(HISTORY)
    axes = picture.figure.axes[0]
    peak = next(line for line in axes.lines if line.get_marker() == "o")
    assert (list(peak.get_xdata()), list(peak.get_ydata())) == ([1], [84])
    assert [line.get_xdata()[0] for line in axes.lines if line.get_linestyle() == ":"] == [1, 2]
    assert picture.alt == (
        "Live memory over 3 allocations and frees of storages, stacked by label. It starts at 15 B, peaks at 84 B "
        "(most of it: activation 60 B, parameter 10 B, other 9 B) and ends at 45 B. Marks: forward 84 B; end 45 B."
    )
    assert "Marks" not in memory_curve(History(0, HISTORY.points)).alt


def test_the_layers_of_the_curve_are_as_thick_as_the_bytes() -> None:
    axes = memory_curve(HISTORY).figure.axes[0]
    tops = [max(vertex[1] for vertex in layer.get_paths()[0].vertices) for layer in axes.collections]
    assert tops == [10, 20, 40, 45, 75, 84]  # parameter, gradient, optimizer state, input, activation, other


def test_gantt_rows_have_the_names_that_they_are_given_in_the_words_too() -> None:
    spans = [
        Span(0, "wait", "wait", 0.0, 1.0),
        Span(1, "read", "data", 0.0, 0.5),
        Span(2, "read", "data", 0.5, 1.0),
    ]
    picture = gantt(spans, names={0: "notebook", 1: "worker 1"})
    labels = [label.get_text() for label in picture.figure.axes[0].get_yticklabels()]
    assert labels == ["notebook", "worker 1", "rank 2"]
    assert "notebook: wait 100%; worker 1: read 50%; rank 2: read 50%." in picture.alt


def test_gantt_boxes_stand_at_their_times_from_zero_in_the_unit_that_fits() -> None:
    picture = gantt(SPANS)
    axes = picture.figure.axes[0]
    boxes = []
    for collection in axes.collections:
        corners = collection.get_paths()[0].vertices
        boxes.append((round((corners[:, 1].max() + corners[:, 1].min()) / 2), corners[:, 0].min(), corners[:, 0].max()))
    assert np.allclose(boxes, [(0, 0, 10), (0, 10, 30), (1, 20, 40), (1, 25, 30)])
    assert axes.get_xlabel() == "time (ms)"
    assert [t.get_text() for t in axes.get_yticklabels()] == ["rank 0", "rank 1"]
    assert picture.alt == (
        "Timeline, 40 ms in all. Shares of the time: rank 0: backward 50%, forward 25%; "
        "rank 1: gradients 38%, copy 12%."
    )


def test_a_span_inside_another_lies_on_top_and_is_lower() -> None:
    outer, inner = gantt(SPANS[2:]).figure.axes[0].collections
    assert inner.get_zorder() > outer.get_zorder()
    heights = [np.ptp(c.get_paths()[0].vertices[:, 1]) for c in (outer, inner)]
    assert heights[1] < heights[0]


def test_communication_behind_compute_runs_in_a_bar_of_its_own_below_it() -> None:
    spans = [
        Span(0, "backward", "compute", 0, 4),
        Span(0, "gradients", "collective", 1, 5),
        Span(0, "step", "compute", 4, 6),
        Span(1, "gradients", "collective", 0, 5),
        Span(1, "forward", "compute", 5, 6),
    ]
    axes = gantt(spans).figure.axes[0]
    edges = [c.get_paths()[0].vertices[:, 1] for c in axes.collections]
    _, backward, gradients, step, _ = edges  # by their start, the longer first
    assert max(*backward, *step) < min(gradients), "downwards: ranks are counted from the top"
    assert np.ptp(gradients) < np.ptp(backward)
    assert all(-0.5 < edge < 0.5 for edge in (*backward, *gradients))
    assert len(gantt(spans[3:]).figure.axes[0].collections) == 2
    apart = [c.get_paths()[0].vertices[:, 1] for c in gantt(spans[3:]).figure.axes[0].collections]
    assert np.allclose(*apart), "nothing at once: one bar, of full height"


def test_spans_in_flight_together_are_all_in_sight() -> None:
    """Of three that cross one after another, no two that overlap have the same height and layer."""
    spans = [Span(0, "all_reduce", "collective", start, start + 3) for start in (0, 2, 4)]
    first, second, third = gantt(spans).figure.axes[0].collections
    for one, other in ((first, second), (second, third)):
        assert one.get_zorder() != other.get_zorder()
        inner, outer = sorted((one, other), key=lambda c: -c.get_zorder())
        assert np.ptp(inner.get_paths()[0].vertices[:, 1]) < np.ptp(outer.get_paths()[0].vertices[:, 1])


def test_lines_tell_curves_apart_by_more_than_colour() -> None:
    axes = lines({str(k): {1: k, 2: k + 1} for k in range(7)}, x_label="x", y_label="y").figure.axes[0]
    assert len({(line.get_linestyle(), line.get_marker()) for line in axes.lines}) == 7
    assert axes.get_xlabel() == "x"


def test_lines_axes_and_words() -> None:
    picture = lines({"a": {1: 0.5, 8: 2.0}}, x_label="size (B)", y_label="time (s)", log_x=True, log_y=True)
    axes = picture.figure.axes[0]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert picture.alt == "Curves: time (s) over size (B). a goes from 0.5 at 1 to 2 at 8."


@pytest.mark.parametrize(
    ("xs", "x", "label"),
    [
        ((4, 64, 16384), 16384, "16384"),
        ((0.5, 64), 0.5, "0.5"),
        ((64, 2**20), 64, "$\\mathdefault{2^{6}}$"),
    ],
)
def test_an_axis_of_powers_of_2_is_labelled_with_numbers_while_they_are_short(xs, x, label) -> None:
    axes = lines({"a": {x: x for x in xs}}, x_label="link (MB/s)", y_label="y", log_x=True).figure.axes[0]
    assert axes.xaxis.get_major_formatter()(x, 0) == label


@pytest.mark.parametrize(
    ("heights", "label"),
    [((200, 1700), "600"), ((0.2, 1.7), "0.6"), ((2e5, 1.7e6), "$\\mathdefault{6\\times10^{5}}$")],
)
def test_an_axis_of_powers_of_10_is_labelled_with_numbers_while_they_are_short(heights, label) -> None:
    points = ((1, 2), heights)
    axes = lines({"a": points}, x_label="link (MB/s)", y_label="y", log_x=True, log_y=True).figure.axes[0]
    assert label in [text.get_text() for text in axes.yaxis.get_ticklabels(which="minor")]


@pytest.mark.parametrize(("xs", "all_whole"), [((1, 2, 4), True), ((1, 1.5, 2), False)])
def test_between_whole_numbers_no_part_of_one_is_marked(xs, all_whole) -> None:
    axes = lines({"a": {x: x for x in xs}}, x_label="ranks", y_label="y").figure.axes[0]
    assert all(x == round(x) for x in axes.get_xticks()) == all_whole


def test_every_label_has_a_letter_of_its_own_and_neighbours_differ_in_hatch_or_colour() -> None:
    assert set(LABEL_LOOKS) == set(LABELS)
    assert len({look.letter for look in LABEL_LOOKS.values()}) == len(LABELS)
    assert len({look.colour for look in LABEL_LOOKS.values()}) == len(LABELS)


def test_kinds_and_known_names_have_looks() -> None:
    assert look_of_span("forward", "compute")[0] == "forward"
    both = [look_of_span(name, "collective") for name in ("all_gather", "reduce_scatter")]
    assert [word for word, _ in both] == ["all_gather", "reduce_scatter"]
    assert len({value for _, look in both for value in vars(look).values()}) == 6
    assert look_of_span("something", "collective")[0] == "collective"
    kinds = [look_of_span("", kind)[1] for kind in ("compute", "send", "recv", "collective", "wait", "data")]
    assert len({look.letter for look in kinds}) == 6


@pytest.mark.parametrize("ground", [look.colour for look in LABEL_LOOKS.values()] + ["#BBBBBB", "#FFFFFF"])
def test_letters_stand_out_from_their_ground(ground: str) -> None:
    def luminance(colour: Any) -> float:
        parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
        return float(np.dot(parts, (0.2126, 0.7152, 0.0722)))

    low, high = sorted((luminance(ground), luminance(text_colour(ground))))
    assert (high + 0.05) / (low + 0.05) >= 4.5


def test_the_bars_of_a_step_say_the_same_in_words() -> None:
    picture = PICTURES["step bars"]()
    assert "one: 20 ms (computing 20 ms); four: 16 ms (computing 9 ms, messages 3 ms, waiting 4 ms)" in (picture.alt)
    time_axes = picture.figure.axes[1]
    assert [round(patch.get_width(), 6) for patch in time_axes.patches] == [20.0, 9.0, 3.0, 4.0]


def test_errors_name_the_rule() -> None:
    with pytest.raises(ValueError, match="at least one"):
        memory_bars({})
    with pytest.raises(ValueError, match="no label of the ledger"):
        memory_bars({"a": {"weights": 3}})
    with pytest.raises(ValueError, match="bytes are given for one, and times for four"):
        memory_and_time_bars({"one": FULL}, {"four": SHARED})
    with pytest.raises(ValueError, match="0 or more"):
        memory_bars({"a": {"parameter": -1}})
    with pytest.raises(ValueError, match="no span"):
        gantt([])
    with pytest.raises(ValueError, match="no point"):
        memory_curve(History(0, ()))
    with pytest.raises(ValueError, match="no curves"):
        lines({}, x_label="x", y_label="y")
    with pytest.raises(ValueError, match="one y for each x"):
        lines({"a": ([1, 2], [1])}, x_label="x", y_label="y")


def test_no_pyplot_and_no_torch() -> None:
    code = "import sys, course_lib.plot\nassert not {'matplotlib.pyplot', 'torch'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=200)
