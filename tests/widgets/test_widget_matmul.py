"""The matmul explorer and its board, driven without a front end."""

from __future__ import annotations

import io
import itertools

import pytest
from PIL import Image

from course_lib.parallel.tensor import Partial, Replicate, Shard, matmul_plan
from course_lib.plot.boards.matmul_board import HeldTiles, MatmulBoard, cut_in_words, plan_columns, tile_columns
from course_lib.plot.style import OKABE_ITO
from course_lib.widgets import MatmulExplorer
from course_lib.widgets.matmul.ways import Planned, _whole

TILES = "in tiles (both)"


@pytest.fixture
def explorer() -> MatmulExplorer:
    return MatmulExplorer()


@pytest.fixture
def running(cluster2, cluster4) -> MatmulExplorer:
    return MatmulExplorer({2: cluster2, 4: cluster4}.__getitem__)


def choose(explorer: MatmulExplorer, x: str, a: str, y: str, num_ranks: int) -> None:
    explorer.x.value, explorer.a.value, explorer.y.value = x, a, y
    explorer.num_ranks.value = str(num_ranks)


def test_it_starts_with_columns_a_picture_and_the_plan_in_words(explorer):
    assert Image.open(io.BytesIO(explorer.image.value)).format == "PNG"
    words = explorer.words.value
    assert "Each rank multiplies X on every rank by A cut by columns; the product is cut by columns." in words
    assert "Forward: no collective; each rank sends 0 bytes." in words
    assert "Backward: all_reduce of dX; each rank sends 8,192 bytes." in words  # 4 x 64 x 32, once round two ranks
    assert "role='status'" in words
    assert repr(explorer) == "Matmul explorer (X whole, A cut by columns, Y cut by columns, 2 ranks)"


@pytest.mark.parametrize(
    ("x", "a", "y", "said"),
    [
        ("cut by columns", "cut by rows", "whole", "Forward: all_reduce of Y; each rank sends 18,432 bytes"),
        (
            "cut by columns",
            "cut by rows",
            "cut by rows",
            "Forward: reduce_scatter of Y; each rank sends 9,216",
        ),
        ("cut by columns", "cut by rows", "partial sums", "Backward: no collective; each rank sends 0 bytes"),
        ("cut by rows", "cut by rows", "cut by rows", "all_gather of A"),
    ],
)
def test_every_menu_redraws_and_says_so(explorer, x, a, y, said):
    image = explorer.image.value
    choose(explorer, x, a, y, 4)
    assert explorer.image.value != image
    assert said in explorer.words.value
    assert explorer.picture().alt in explorer.words.value.replace("<br>", " ")


def test_one_rank_sends_nothing(explorer):
    explorer.num_ranks.value = "1"
    assert "One rank has everything and sends nothing." in explorer.words.value


def test_every_control_has_a_name_and_running_needs_ranks(explorer):
    controls = (explorer.x, explorer.a, explorer.y, explorer.num_ranks, explorer.run)
    assert [control.description for control in controls] == ["X is", "A is", "Y wanted", "ranks", "run"]
    assert explorer.run.disabled


def test_tiles_settle_the_other_menus_and_give_them_back(explorer):
    explorer.a.value = TILES
    others = (explorer.x, explorer.y, explorer.num_ranks)
    assert [control.value for control in others] == ["cut by columns", "cut by columns", "4"]
    assert all(control.disabled for control in others)
    assert "by ranks 0 and 2, 1 and 3; each rank sends 6,144 bytes" in explorer.words.value  # 4 x 64 x 48 / 2
    assert "by ranks 0 and 1, 2 and 3; each rank sends 4,096 bytes" in explorer.words.value  # 4 x 64 x 32 / 2
    explorer.a.value = "whole"
    assert not any(control.disabled for control in others)


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(
    ("x", "a", "y", "num_ranks", "said"),
    [
        ("whole", "cut by columns", "cut by columns", 2, "each rank sent 8,192 bytes, as planned."),
        ("cut by columns", "cut by rows", "whole", 4, "each rank sent 18,432 bytes, as planned."),
        ("cut by columns", "cut by rows", "partial sums", 2, "each rank sent 0 bytes, as planned."),
        (
            "cut by rows",
            "cut by rows",
            "cut by rows",
            4,
            "gloo&#x27;s reduce_scatter is an all_reduce inside.",
        ),
    ],
)
def test_the_button_runs_the_plan_and_compares(running, x, a, y, num_ranks, said):
    choose(running, x, a, y, num_ranks)
    running.run.click()
    assert f"Run on {num_ranks} ranks: Y, dX and dA are those of one device; " in running.words.value
    assert said in running.words.value
    assert not running.run.disabled
    running.run.click()  # again: the same
    assert said in running.words.value
    running.x.value = "whole" if x != "whole" else "cut by rows"
    assert "Run on" not in running.words.value  # it told of another choice


def test_the_button_runs_tiles(running):
    running.a.value = TILES
    running.run.click()
    said = "Run on 4 ranks: Y, dX and dA are those of one device; each rank sent 10,240 bytes, as planned."
    assert said in running.words.value


def test_a_wrong_product_is_told(running, monkeypatch):
    monkeypatch.setattr(Planned, "makes_up", lambda self, parts, wholes: False)
    running.run.click()
    assert "Y, dX or dA is wrong" in running.words.value


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_each_of_the_three_products_is_looked_at(running, wrong):
    for choice in (("cut by columns", "cut by rows", "cut by rows", 2), ("whole", TILES, "whole", 4)):
        choose(running, *choice)
        way = running.way
        parts = [list(one) for one in running._ranks(way.num_ranks).run(way.multiply)]
        x, a, grad_y = _whole()
        wholes = (x @ a, grad_y @ a.T, x.T @ grad_y)
        assert way.makes_up(parts, wholes)
        parts[1][wrong] = parts[1][wrong] + 1
        assert not way.makes_up(parts, wholes)


def test_ranks_that_fail_are_told_in_words_and_the_button_works_again():
    def gone(number):
        raise RuntimeError("the ranks are <gone>\nmore")

    explorer = MatmulExplorer(gone)
    explorer.run.click()
    assert "The ranks could not run it: the ranks are &lt;gone&gt;</div>" in explorer.words.value
    assert not explorer.run.disabled


# -- the board --------------------------------------------------------------------------------------------------


def test_each_rank_holds_its_own_part_and_together_they_hold_all():
    columns, moved = plan_columns(matmul_plan(Shard(1), Shard(0), Replicate()), 4)
    assert moved == "all_reduce"
    assert [column.title for column in columns] == ["X", "A", "X A, on each rank", "Y"]
    assert [column.placed for column in columns] == [
        "S(1): cut by columns", "S(0): cut by rows", "P: partial sums", "R: on every rank",
    ]  # fmt: skip
    assert [held.box for held in columns[0].held] == [(rank / 4, 0, 1 / 4, 1) for rank in range(4)]
    assert [held.box for held in columns[1].held] == [(0, rank / 4, 1, 1 / 4) for rank in range(4)]
    assert list(columns[2].held) == [HeldTiles((0, 0, 1, 1), is_summand=True)] * 4
    tiles, moved = tile_columns()
    assert [held.box for held in tiles[1].held] == [
        (0, 0, 0.5, 0.5), (0.5, 0, 0.5, 0.5), (0, 0.5, 0.5, 0.5), (0.5, 0.5, 0.5, 0.5),
    ]  # fmt: skip
    assert [held.box[0] for held in tiles[0].held] == [0, 0, 0.5, 0.5]
    assert [held.box[0] for held in tiles[3].held] == [0, 0.5, 0, 0.5]
    assert moved == "all_reduce"


def test_what_moves_first_is_named_and_what_was_held_is_kept():
    columns, moved = plan_columns(matmul_plan(Shard(0), Shard(0), Shard(0)), 2)
    assert (columns[0].first, columns[1].first, moved) == ("", "all_gather first", "stays")
    assert [held.before for held in columns[1].held] == [(0, 0, 1, 0.5), (0, 0.5, 1, 0.5)]
    alone, moved = plan_columns(matmul_plan(Shard(0), Replicate(), Partial()), 1)
    assert moved == "stays"
    assert not any(held.is_summand or held.before for column in alone for held in column.held)


def test_every_plan_is_drawn_and_the_picture_is_as_high_as_its_ranks():
    board, kinds = MatmulBoard(), [Replicate(), Shard(0), Shard(1), Partial()]
    for x, a, y in itertools.product(kinds[:3], kinds[:3], kinds):
        columns, moved = plan_columns(matmul_plan(x, a, y), 2)
        assert board.draw(columns, moved, "said").alt == "said"
    heights = []
    for number in (1, 2, 4):
        columns, moved = plan_columns(matmul_plan(kinds[0], kinds[2], kinds[2]), number)
        heights.append(Image.open(io.BytesIO(board.draw(columns, moved, "").png())).height)
    assert heights == sorted(set(heights))


def test_a_part_is_painted_where_it_is():
    picture = MatmulBoard().draw(*plan_columns(matmul_plan(Shard(1), Shard(0), Shard(1)), 2), "")
    image = Image.open(io.BytesIO(picture.png())).convert("RGB")
    per_inch = image.width / 8

    def colour(x: float, y: float) -> str:
        red, green, blue = image.getpixel((round(x * per_inch), round(y * per_inch)))
        return f"#{red:02X}{green:02X}{blue:02X}"

    first, second = 0.62, 0.62 + 0.82  # the tops of the ranks' rows, in inches
    blue, orange, white = OKABE_ITO["sky blue"], OKABE_ITO["orange"], "#FFFFFF"
    left, right = 0.75 + 0.1, 0.75 + 0.9  # of X, cut by columns
    painted = [colour(x, top + 0.1) for top in (first, second) for x in (left, right)]
    assert painted == [blue, white, white, orange]
    upper, lower = 0.1, 0.52  # of A, cut by rows
    painted = [colour(2.25 + 0.2, top + y) for top in (first, second) for y in (upper, lower)]
    assert painted == [blue, white, white, orange]


def test_a_cut_in_words():
    placements = (Shard(0), Shard(1), Replicate(), Partial())
    words = ["cut by rows", "cut by columns", "on every rank", "partial sums"]
    assert list(map(cut_in_words, placements)) == words
