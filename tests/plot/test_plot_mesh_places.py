"""The ranks of a mesh at their places: where each box stands, what is written in it, and in words."""

from __future__ import annotations

import pytest
from matplotlib.patches import Rectangle

from course_lib.layouts.mesh import Mesh
from course_lib.plot import mesh_places

CUBE = Mesh.of(pp=2, dp_shard=2, tp=2)


def boxes(picture):
    """Of each text in a box its place on the sheet, and the colour of the box."""
    axes = picture.figure.axes[0]
    found = {}
    for patch in (one for one in axes.patches if isinstance(one, Rectangle)):
        x, y = patch.get_x() + patch.get_width() / 2, patch.get_y() + patch.get_height() / 2
        text = next(one for one in axes.texts if one.get_position() == pytest.approx((x, y)))
        found[text.get_text()] = (x, y, patch.get_facecolor())
    return found


def test_the_last_axis_goes_right_the_one_before_down_and_the_outermost_to_the_next_panel():
    at = boxes(mesh_places(CUBE))
    zero, tp, shard, pp = (at[f"rank {rank}"] for rank in (0, 1, 2, 4))
    assert len(at) == 8
    assert tp[0] > zero[0]
    assert tp[1] == zero[1]
    assert shard[0] == zero[0]
    assert shard[1] > zero[1]  # y goes down
    assert pp[0] > tp[0]
    assert pp[1] == zero[1]


def test_equal_words_have_one_colour_and_others_another():
    at = boxes(mesh_places(Mesh.of(dp_shard=2, tp=2), {0: "a", 1: "b", 2: "a"}))
    assert at["rank 0\na"][2] == at["rank 2\na"][2] != at["rank 1\nb"][2]
    assert at["rank 3"][2] == (1, 1, 1, 1)


def test_the_text_says_of_each_rank_where_it_stands_and_what_it_has():
    said = repr(mesh_places(Mesh.of(tp=2), {1: "rows 4 to 7"}, title="A matrix"))
    assert said == "A matrix. rank 0 at tp 0; rank 1 at tp 1: rows 4 to 7."


@pytest.mark.parametrize(
    ("mesh", "words", "problem"),
    [
        (Mesh.of(pp=2, dp_replicate=2, dp_shard=2, tp=2), {}, "axes"),
        (Mesh.of(tp=16), {}, "tp"),
        (Mesh.of(tp=2), {2: "a"}, "rank"),
    ],
)
def test_what_cannot_be_drawn_is_refused(mesh, words, problem):
    with pytest.raises(ValueError, match=problem):
        mesh_places(mesh, words)
