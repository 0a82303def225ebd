"""Pictures of what a page has found: what is drawn is what was given, the words agree, and nothing is cut off."""

from __future__ import annotations

import io
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
from matplotlib.patches import Rectangle
from PIL import Image
from test_plot_every_figure import MOST_LOST, lost

from course_lib.parallel.tensor import matmul_plan, parse_placement
from course_lib.plot import (
    Picture,
    clip_arrows,
    flow_chart,
    gpu_areas,
    input_gradient_tiles,
    position_grids,
    sent_bars,
    slots_chart,
    stacked_bars,
    traffic_map,
    ways_to_join,
)

KIB = 1024
RING = [[0, 3 * KIB, 0, 0], [0, 0, 3 * KIB, 0], [0, 0, 0, 3 * KIB], [3 * KIB, 0, 0, 0]]
BY_NODE, IN_TURN = ((0, 1), (2, 3)), ((0, 2), (1, 3))
FIRST, SECOND = torch.tensor([[1.0, 0.0], [3.0, 0.0]]), torch.tensor([[0.0, 2.0], [0.0, 4.0]])
ORDER = ["G0", "G1", "F0", "R0", "G2", "F1", "F2", "B2", "R2", "G0", "B1", "R1", "B0", "R0"]
PLAN = matmul_plan(*map(parse_placement, ("R", "S(1)", "S(1)")))
EVERY = [[(0 if one == other else 12_345_678) for other in range(4)] for one in range(4)]


def call(operation: str, *sizes: int) -> SimpleNamespace:
    return SimpleNamespace(operation=operation, sent_bytes=dict(enumerate(sizes, start=1)))


CALLS = [call("barrier"), call("all_gather", 2 * KIB), call("all_to_all", KIB, KIB), call("all_gather", KIB)]

PICTURES: dict[str, Callable[[], Picture]] = {
    "traffic": lambda: traffic_map({"by node": (RING, BY_NODE), "in turn": (RING, IN_TURN)}, title="A ring"),
    "traffic of all with all": lambda: traffic_map({"every pair": (EVERY, BY_NODE)}, place="machine"),
    "sent": lambda: sent_bars({"a run with a long name": CALLS, "none": []}, title="A step"),
    "flow": lambda: flow_chart({"rank 0": {"a": 3, "b": 1}, "rank 1": {"b": 2}}, unit="rows", title="Rows"),
    "flow to eight": lambda: flow_chart({f"rank {r}\nof eight": {f"e{e}": 1 for e in range(8)} for r in range(8)}),
    "stacked": lambda: stacked_bars(
        {"one": {"states": 128.1, "activations": 70.0}, "a much longer name": {"states": 16.0, "activations": 0.0}},
        unit="GB", what="memory", limit=("room", 79.5), title="Bars",
    ),
    "stacked below the limit": lambda: stacked_bars({"a": {"b": 1.0}}, unit="s", what="time", limit=("at most", 2)),
    "joined": lambda: ways_to_join(FIRST, SECOND, FIRST + SECOND, title="Two parts"),
    "tiles": lambda: input_gradient_tiles(PLAN, 2),
    "slots": lambda: slots_chart(ORDER, title="Three units"),
    "arrows": lambda: clip_arrows({"one rank": (1.0, 1.0), "four ranks": (2.0, 0.9)}, title="Clipped"),
    "an arrow back": lambda: clip_arrows({"a turned one": (3.0, -1.0)}),
    "grids": lambda: position_grids({"a": torch.eye(8), "b": torch.ones(8, 8).tril()}, num_ranks=4, title="Grids"),
    "areas": lambda: gpu_areas({1: 0.060, 2: 0.040, 4: 0.055}, title="Areas"),
}  # fmt: skip


@pytest.mark.parametrize("name", PICTURES)
def test_no_text_is_cut_off_at_the_edge_of_the_picture(name):
    figure = PICTURES[name]().figure
    figure.canvas.draw()
    frame = figure.bbox.expanded(1.004, 1.004)
    texts = [text for axes in figure.axes for text in (*axes.texts, axes.title, axes.xaxis.label, axes.yaxis.label)]
    for text in (*texts, *(one for legend in figure.legends for one in legend.get_texts())):
        if text.get_text():
            box = text.get_window_extent()
            assert frame.x0 <= box.x0, text
            assert box.x1 <= frame.x1, text
            assert frame.y0 <= box.y0, text
            assert box.y1 <= frame.y1, text


@pytest.mark.first_cases(3)
@pytest.mark.parametrize("name", PICTURES)
def test_marks_stand_out_in_both_themes(name):
    assert lost(Image.open(io.BytesIO(PICTURES[name]().png()))) <= MOST_LOST


def written(picture: Picture) -> list[str]:
    return [text.get_text() for axes in picture.figure.axes for text in axes.texts]


def boxes(picture: Picture) -> list[tuple[float, float, float, float]]:
    """Left, lower edge, width and height of each rectangle."""
    patches = (one for one in picture.figure.axes[0].patches if isinstance(one, Rectangle))
    return [(one.get_x(), one.get_y(), one.get_width(), one.get_height()) for one in patches]


def test_a_map_of_traffic_has_an_arrow_for_each_pair_and_says_what_leaves():
    by_node, in_turn = (traffic_map({"ring": (RING, nodes)}) for nodes in (BY_NODE, IN_TURN))
    arrows = {"0→1: 3 KiB", "1→2: 3 KiB", "2→3: 3 KiB", "3→0: 3 KiB"}
    assert arrows <= set(written(by_node))
    assert written(by_node).count("3 KiB leave") == 2
    assert written(in_turn).count("6 KiB leave") == 2
    assert "rank 3 sends rank 0 3 KiB" in in_turn.alt
    assert "node 0 has the ranks 0, 2" in in_turn.alt
    assert "6 KiB leave node 1" in in_turn.alt


def test_what_goes_both_ways_alike_is_said_once():
    picture = traffic_map({"a": ([[0, KIB], [KIB, 0]], ((0,), (1,)))}, place="machine")
    assert "1 KiB\neach way" in written(picture)
    assert "1 KiB leave machine 0" in picture.alt


def test_calls_are_as_wide_as_what_they_send_and_in_their_order():
    picture = sent_bars({"a": CALLS})
    assert [(left, wide) for left, _, wide, _ in boxes(picture)] == [(0, 2 * KIB), (2 * KIB, 2 * KIB), (4 * KIB, KIB)]
    assert written(picture) == ["G", "A", "G", "5 KiB"]
    assert picture.alt.endswith("in this order: all_gather 2 KiB, all_to_all 2 KiB, all_gather 1 KiB.")


def test_many_calls_of_other_sizes_are_said_in_one():
    picture = sent_bars(
        {"a": [*(call("all_reduce", KIB * number) for number in range(1, 18)), call("all_gather", KIB)]}
    )
    assert picture.alt.endswith("in this order: all_reduce, 17 calls of 153 KiB, all_gather, one call of 1 KiB.")


def test_flows_are_as_thick_as_their_sizes_and_come_from_their_source():
    picture = flow_chart({"rank 0": {"a": 4, "b": 2}, "rank 1": {"a": 0, "b": 1}}, unit="rows")
    widths = [line.get_linewidth() for line in picture.figure.axes[0].lines]
    assert widths == pytest.approx([5.0, 2.5, 1.25])
    assert written(picture) == ["rank 0\n6 rows", "rank 1\n1 rows", "a\n4 rows", "b\n3 rows"]
    assert picture.alt == "From rank 0: 4 to a; 2 to b. From rank 1: 1 to b."


def test_without_a_unit_the_words_say_where_alone():
    picture = flow_chart({"agent ant\nnode 0": {"rank 0": 1, "rank 1": 1}}, title="Who starts")
    assert picture.alt == "Who starts. From agent ant, node 0: to rank 0; to rank 1."


def test_parts_lie_side_by_side_and_the_limit_stands_where_it_is():
    picture = stacked_bars({"one": {"a": 3.0, "b": 2.0, "c": 0.0}}, unit="GB", what="memory", limit=("room", 4.0))
    assert [(left, wide) for left, _, wide, _ in boxes(picture)] == [(0, 3), (3, 2)]
    assert picture.figure.axes[0].lines[0].get_xdata() == [4.0, 4.0]
    assert {"5.0 GB", "room 4.0 GB"} <= set(written(picture))
    assert picture.alt == "memory, stacked bars. one: 5.0 GB (a 3.0, b 2.0). A line stands at 4.0 GB: room."


def test_each_part_has_a_letter_and_a_hatch_of_its_own():
    picture = stacked_bars({"one": {"whole": 1.0, "whole gradients": 1.0, "gradients": 1.0}}, unit="B", what="x")
    assert [one.get_text()[0] for one in picture.figure.legends[0].get_texts()] == ["W", "H", "G"]
    assert len({patch.get_hatch() for patch in picture.figure.axes[0].patches}) == 3


@pytest.mark.parametrize(
    ("whole", "right"),
    [
        (FIRST + SECOND, "added up"),
        (torch.cat([FIRST, SECOND]), "one above the other"),
        (torch.cat([FIRST, SECOND], dim=1), "side by side"),
        (FIRST - SECOND, None),
    ],
)
def test_it_says_of_each_way_to_join_whether_it_is_the_product(whole, right):
    said = written(picture := ways_to_join(FIRST, SECOND, whole))
    ways = ("side by side", "one above the other", "added up")
    assert {way: said[said.index(way) + 1] for way in ways} == {
        way: "this is X A" if way == right else "not X A" for way in ways
    }
    assert said.count("3") >= 3
    assert picture.alt.count("this is X A") == (right is not None)


@pytest.mark.parametrize("cuts", [("R", "S(1)", "S(1)"), ("S(1)", "S(0)", "R")])
def test_the_tiles_of_a_gradient_end_by_what_the_plan_does_backward(cuts):
    plan = matmul_plan(*map(parse_placement, cuts))
    sent = [step.collective for step in plan.backward if step.tensor == "dX" and step.is_sent]
    picture = input_gradient_tiles(plan, 2)
    assert picture.alt.endswith(f"From dY Aᵀ to dX: {sent[0] if sent else 'stays'}.")


def test_a_unit_is_drawn_from_its_gather_until_it_is_let_go():
    picture = slots_chart(ORDER)
    assert written(picture) == ["0", "1", "2", "1", "2", "1", "2", "1", "0", "1", "0"]
    assert "at F1 the units 2, 1; at F2 the units 2, 1; at B2 the units 2, 1; at B1 the units 0, 1" in picture.alt


def test_arrows_end_where_length_and_angle_say():
    picture = clip_arrows({"one rank": (1.0, 1.0), "four ranks": (2.0, 0.6)})
    ends = [one.xy for one in picture.figure.axes[0].texts if one.get_text() == ""]
    assert ends == [pytest.approx((1.0, 0.0)), pytest.approx((1.2, 1.6))]
    assert "four ranks is 2.00 limits long, at 53 degrees" in picture.alt


def test_a_square_is_filled_where_a_position_is_read():
    grid = torch.ones(4, 4).tril()
    picture = position_grids({"attention": grid}, num_ranks=2)
    assert torch.equal(torch.as_tensor(picture.figure.axes[0].images[0].get_array()), grid.to(torch.uint8))
    assert picture.alt.endswith("attention: rank 0 reads positions of 0, rank 1 reads positions of 0 1.")


def test_an_area_is_time_by_gpus_and_what_is_lost_lies_behind_the_share():
    picture = gpu_areas({1: 0.060, 2: 0.040})
    (alone, _, wide, high), share, rest = boxes(picture)
    assert (alone, wide, high) == pytest.approx((0, 60, 1))
    assert share[2:] == pytest.approx((30, 2))
    assert rest[2:] == pytest.approx((10, 2))
    assert rest[0] == pytest.approx(share[0] + 30)
    assert picture.alt.endswith(
        "1 GPU for 60 ms, 1.00 times the area of one; 2 GPUs for 40 ms, 1.33 times the area of one."
    )


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: traffic_map({}),
        lambda: traffic_map({"a": (RING, ((0, 1, 2, 3),))}),
        lambda: traffic_map({"a": (RING, ((0, 1), (2, 4)))}),
        lambda: traffic_map({"a": ([[0] * 6] * 6, ((0, 1, 2), (3, 4, 5)))}),
        lambda: sent_bars({"a": [call("barrier")]}),
        lambda: flow_chart({"a": {"b": 0}}, unit="rows"),
        lambda: flow_chart({"a": {"b": -1, "c": 2}}, unit="rows"),
        lambda: flow_chart({"a": {str(target): 1 for target in range(9)}}, unit="rows"),
        lambda: stacked_bars({}, unit="GB", what="memory"),
        lambda: stacked_bars({"a": {"b": -1.0}}, unit="GB", what="memory"),
        lambda: ways_to_join(FIRST, SECOND[:1], FIRST),
        lambda: input_gradient_tiles(PLAN, 5),
        lambda: slots_chart(["X0"]),
        lambda: slots_chart(["G0"]),
        lambda: clip_arrows({}),
        lambda: clip_arrows({"a": (1.0, 1.5)}),
        lambda: position_grids({}, num_ranks=2),
        lambda: position_grids({"a": torch.ones(4, 5)}, num_ranks=2),
        lambda: position_grids({"a": torch.eye(4)}, num_ranks=3),
        lambda: gpu_areas({2: 1.0}),
        lambda: gpu_areas({1: 0.0}),
    ],
)
def test_what_cannot_be_drawn_is_refused(wrong):
    with pytest.raises(ValueError):  # noqa: PT011  each says which of its values it is
        wrong()
