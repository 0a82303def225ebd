"""Who holds what, as tiles and in words, and the board of the mesh explorer."""

from __future__ import annotations

import pytest

from course_lib.cost import LinkBytes, holders_of_parameter, mesh_state
from course_lib.layouts.mesh import Mesh
from course_lib.models import TransformerConfig
from course_lib.plot import who_holds
from course_lib.plot.boards.mesh_board import LINK_LOOKS, MeshBoard
from course_lib.plot.boards.mesh_tiles import holders_in_words, look_of_piece, ranks_text
from course_lib.plot.raster import Raster
from course_lib.plot.style import LABEL_LOOKS

CONFIG = TransformerConfig(context_length=32, num_layers=4, width=64, num_heads=4)
W_DOWN = "blocks.2.mlp.w_down.weight"  # (64, 256): drawn half as high as wide
BLANK = "#FFFFFF"


def colour_at(picture: Raster, x: float, y: float) -> str:
    red, green, blue = picture.image.getpixel((round(x * 1.5), round(y * 1.5)))
    return f"#{red:02X}{green:02X}{blue:02X}"


@pytest.mark.parametrize(
    ("text", "ranks", "said"),
    [
        ("dp_replicate=8, 4 ranks a node", (0, 1, 4, 5), "0 1 | 4 5"),
        ("dp_replicate=8, 4 ranks a node", range(8), "0-3 | 4-7"),
        ("dp_replicate=8", (0, 1, 2, 5, 7), "0-2 5 7"),
        ("dp_replicate=8, 1 ranks a node", (2, 3), "2 | 3"),
    ],
)
def test_ranks_of_a_node_stand_together(text, ranks, said):
    assert ranks_text(Mesh.parse(text), tuple(ranks)) == said


def test_tiles_and_ranks_have_the_colours_of_their_pieces():
    picture = who_holds(CONFIG, Mesh.parse("pp=2 dp_shard=2 tp=2, 4 ranks a node"), W_DOWN)
    looks = [look_of_piece(number).colour for number in range(4)]
    tiles = [(16 + 324 * x, 44 + 162 * y) for y in (0.2, 0.8) for x in (0.2, 0.8)]
    assert [colour_at(picture, *tile) for tile in tiles] == looks
    cell, outline = 96, (78, 39)  # of a rank in the second row: 4 to 7, which have the stage
    for place in range(4):
        left, top = 372 + cell * place + 9, 34 + 0.85 * cell + 19
        x, y = outline[0] * (0.25, 0.75)[place % 2], outline[1] * (0.25, 0.75)[place // 2]
        assert colour_at(picture, left + x, top + y) == looks[place]
        assert colour_at(picture, left + outline[0] - x, top + y) == BLANK
        assert colour_at(picture, left + x, top + y - 0.85 * cell) == BLANK  # ranks 0 to 3 have other layers


def test_the_words_say_who_holds_what():
    mesh = Mesh.of(dp_replicate=2, tp=2)
    assert who_holds(CONFIG, mesh, W_DOWN).alt == (
        f"{W_DOWN} on dp_replicate=2 tp=2. In 2 pieces: rows 0-63, columns 0-127 on ranks 0 2; rows 0-63, columns "
        "128-255 on ranks 1 3."
    )
    norm = holders_of_parameter(CONFIG, mesh, "head.norm.weight")
    assert holders_in_words(mesh, norm) == "In one piece: numbers 0-63 on ranks 0-3."


@pytest.mark.parametrize("text", ["dp_shard=16", "pp=3 dp_shard=5, 3 ranks a node", "tp=4 dp_shard=3, 6 ranks a node"])
@pytest.mark.parametrize("name", ["stem.tokens.weight", "head.norm.weight"])
def test_any_mesh_is_drawn_within_the_sheet_and_pieces_look_different(text, name):
    mesh = Mesh.parse(text)
    picture = who_holds(CONFIG, mesh, name)
    assert {colour_at(picture, x, y) for x in (2, 766) for y in range(0, 300, 7)} == {BLANK}
    assert {colour_at(picture, x, 298) for x in range(0, 768, 7)} == {BLANK}
    looks = [look_of_piece(number) for number in range(28)]
    assert len({(look.colour, look.hatch) for look in looks}) == 28


def board(mesh: Mesh, sent: dict[str, LinkBytes], **measured) -> Raster:
    states = [mesh_state(CONFIG, mesh, rank) for rank in range(mesh.num_ranks)]
    holders = holders_of_parameter(CONFIG, mesh, W_DOWN)
    return MeshBoard(4_000_000).draw(mesh, W_DOWN, holders, states, sent, alt="said", **measured)


def test_bars_are_as_high_and_as_long_as_what_they_show():
    mesh = Mesh.of(dp_shard=2, tp=2)
    sent = {"dp_shard": LinkBytes(0, 500), "tp": LinkBytes(600, 400)}
    picture = board(mesh, sent)
    assert picture.alt == "said"
    state = mesh_state(CONFIG, mesh, 0)
    high = 144 * state.total / (1.15 * 4_000_000)
    assert colour_at(picture, 91, 480 - high - 2) == BLANK
    assert colour_at(picture, 91, 480 - high / 8) == LABEL_LOOKS["parameter"].colour
    within, between = (LINK_LOOKS[name].colour for name in ("within nodes", "between nodes"))
    y_of, long = {"dp_shard": 336 + 12, "tp": 336 + 37 + 12}, 236
    assert colour_at(picture, 384 + 0.58 * long, y_of["tp"]) == within
    assert between in {colour_at(picture, 384 + 0.9 * long + dx, y_of["tp"]) for dx in range(5)}
    assert between in {colour_at(picture, 384 + 0.1 * long + dx, y_of["dp_shard"]) for dx in range(5)}
    assert colour_at(picture, 384 + 0.6 * long, 336 + 37 - 16) == BLANK


def test_what_was_measured_is_a_black_line_at_its_place():
    mesh, sent = Mesh.of(dp_shard=2, tp=2), {"tp": LinkBytes(600, 400)}
    found = {"measured_held": [2_000_000] * 4, "measured_sent": {"tp": LinkBytes(300, 500)}}
    plain, measured = board(mesh, sent), board(mesh, sent, **found)
    y = 480 - 144 * 2_000_000 / (1.15 * 4_000_000)
    assert (colour_at(plain, 120, y), colour_at(measured, 120, y)) == (BLANK, "#000000")
    for share in (0.3, 0.8):
        x = 384 + 236 * share
        assert colour_at(plain, x, 350) != "#000000"
        assert colour_at(measured, x, 350) == "#000000"


def test_a_sentence_is_drawn_where_there_is_no_mesh():
    said = "tp=3 does not divide the heads. " * 8
    blank = MeshBoard(1000).blank(said)
    assert blank.alt == said
    assert blank.size == board(Mesh.of(tp=2), {}).size


def test_a_rank_that_keeps_next_to_nothing_is_drawn_too():
    """Of 256 rows in 15 parts the last has 4, of 64 rows none: a bar of less than a pixel."""
    assert board(Mesh.of(dp_shard=15), {}).size == board(Mesh.of(tp=2), {}).size


def test_every_rank_of_a_replica_is_filled():
    picture = who_holds(CONFIG, Mesh.of(dp_replicate=4), W_DOWN)
    places = [(372 + 96 * rank + 48, 34 + 19 + 15) for rank in range(4)]
    assert {colour_at(picture, *place) for place in places} == {look_of_piece(0).colour}
