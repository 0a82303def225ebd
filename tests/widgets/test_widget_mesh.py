"""The mesh explorer, driven without a front end."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest
from mesh_watched import RUN, as_the_model_says
from PIL import Image

from course_lib.base.text import kib
from course_lib.cluster import RankError
from course_lib.layouts.mesh import Mesh
from course_lib.parallel.mesh import WatchedRank
from course_lib.widgets import MeshChoice, MeshExplorer, every_mesh_choice
from course_lib.widgets.mesh.choice import AXES, MOST_RANKS

EIGHT = "pp=2 dp_shard=2 tp=2, 4 ranks a node"


@pytest.fixture
def explorer() -> MeshExplorer:
    return MeshExplorer()


@pytest.fixture
def planned(monkeypatch) -> MeshExplorer:
    """An explorer whose four ranks hold and send what the model says."""
    monkeypatch.setattr(RUN, lambda cluster, mesh, config, num_rows: as_the_model_says(mesh))
    return MeshExplorer(SimpleNamespace(world_size=4))


def words_of(explorer: MeshExplorer) -> str:
    return explorer.words.value.replace("<br>", " ").replace("&#x27;", "'")


# -- what a choice comes to -----------------------------------------------------------------------------------------


def test_axes_of_size_1_make_no_difference_and_neither_does_their_order():
    sizes = dict.fromkeys(AXES, 1) | {"tp": 2, "pp": 2}
    orders = [("pp", "dp_replicate", "dp_shard", "tp"), ("dp_shard", "pp", "tp", "dp_replicate")]
    one, other = (MeshChoice.of(sizes, order) for order in orders)
    assert one == other == MeshChoice(Mesh.of(pp=2, tp=2))
    assert MeshChoice.of(sizes, AXES[::-1]) == MeshChoice(Mesh.of(tp=2, pp=2))
    alone = MeshChoice.of(dict.fromkeys(AXES, 1), AXES)
    assert (alone.num_ranks, alone.axes, alone.between_bytes) == (1, (), 0)


def test_bytes_by_link_are_those_of_the_cost_model_and_an_order_moves_them_between_nodes():
    outer, inner = (MeshChoice(Mesh.parse(text)) for text in ("pp=2 tp=2, 2 ranks a node", "tp=2 pp=2, 2 ranks a node"))
    assert {axis: sum(links) for axis, links in outer.sent().items()} == {
        axis: sum(links) for axis, links in inner.sent().items()
    }
    assert outer.between_bytes == sum(outer.sent()["pp"])
    assert inner.between_bytes == sum(inner.sent()["tp"])
    assert inner.between_bytes > 8 * outer.between_bytes


@pytest.mark.parametrize("num_ranks", [1, 4, 6, 8])
def test_every_choice_is_a_mesh_of_so_many_ranks_once(num_ranks):
    choices = every_mesh_choice(num_ranks, 1)
    assert len(set(choices)) == len(choices)
    assert {choice.num_ranks for choice in choices} == {num_ranks}
    assert all(choice.mesh.size("tp") in (1, 2, 4) for choice in choices)


def test_what_makes_no_choices_gets_a_sentence():
    for call, said in (
        (lambda: every_mesh_choice(8, 3), "do not fill nodes of 3"),
        (lambda: every_mesh_choice(0), "num_ranks"),
        (lambda: every_mesh_choice(17), "num_ranks"),
    ):
        with pytest.raises(ValueError, match=said):
            call()


# -- the explorer ---------------------------------------------------------------------------------------------------


def test_it_starts_with_replicas_a_picture_and_the_model_in_words(explorer):
    assert Image.open(io.BytesIO(explorer.image.value)).format == "PNG"
    whole = kib(MeshChoice(Mesh.of(dp_replicate=4)).most_held_bytes)
    words = words_of(explorer)
    assert f"a rank keeps {whole} after a step" in words
    assert "In one piece: rows 0-63, columns 0-255 on ranks 0-3." in words
    assert "dp_replicate: groups 0-3; all ranks together send 5,438 KiB a step, none of them between nodes." in words
    assert "Activations are not counted." in words
    assert "Model only: no ranks were given" in words
    assert explorer.words.value.startswith("<div role='status'>")
    assert explorer.run.disabled
    assert explorer.missions.count("not yet") == 3
    assert repr(explorer) == (
        "Mesh explorer (dp_replicate=4): 3,625 KiB on the rank that keeps most; missions reached: 0 of 3"
    )


def test_every_control_has_a_name_and_none_is_a_slider(explorer):
    controls = [child for row in explorer.children[:3] for child in row.children]
    assert [control.description for control in controls] == [
        *AXES, "ranks of a node", "order, slowest first", "parameter", "run it on real ranks",
    ]  # fmt: skip
    assert {type(control).__name__ for control in controls} == {"BoundedIntText", "Dropdown", "Button"}


@pytest.mark.parametrize(
    ("control", "value", "said"),
    [
        ("order", "tp, dp_shard, dp_replicate, pp", "on tp=2 dp_shard=2 pp=2, 4 ranks a node."),
        ("ranks_per_node", "2", "pp: groups 0 | 4, 1 | 5, 2 | 6, 3 | 7;"),
        ("parameter", "stem.positions.weight", "rows 0-15, columns 0-63 on ranks 0 1; rows 16-31"),
        ("dp_replicate", 2, "on pp=2 dp_replicate=2 dp_shard=2 tp=2, 4 ranks a node."),
    ],
)
def test_every_control_redraws_and_says_so(explorer, control, value, said):
    explorer.choose(EIGHT)
    image = explorer.image.value
    (explorer.sizes.get(control) or getattr(explorer, control)).value = value
    assert explorer.image.value != image
    assert said in words_of(explorer)
    assert explorer.picture().alt in words_of(explorer)


@pytest.mark.parametrize(
    ("sizes", "node", "said"),
    [
        ({"tp": 3, "dp_replicate": 1}, "all ranks", "tp=3 does not divide the 4 query heads"),
        ({"pp": 7, "dp_replicate": 1}, "all ranks", "pp=7 is more stages than this model has pieces"),
        ({"dp_shard": 8}, "all ranks", f"4 x 8 are 32 ranks; this explorer draws at most {MOST_RANKS}."),
        ({"dp_replicate": 6}, "4", "6 ranks do not fill nodes of 4"),
    ],
)
def test_sizes_that_make_no_mesh_get_a_sentence_and_nothing_is_lost(explorer, sizes, node, said):
    explorer.parameter.value = "head.norm.weight"
    for axis, size in sizes.items():
        explorer.sizes[axis].value = size
    explorer.ranks_per_node.value = node
    assert said in words_of(explorer)
    assert said in explorer.picture().alt
    assert said in repr(explorer)
    assert explorer.run.disabled
    assert "mission 1: not yet. These sizes make no mesh." in explorer.missions
    assert {axis: explorer.sizes[axis].value for axis in sizes} == sizes
    for axis in AXES:
        explorer.sizes[axis].value = 4 if axis == "dp_replicate" else 1
    assert "head.norm.weight on dp_replicate=4" in words_of(explorer)


def test_a_mesh_is_chosen_at_once_or_not_at_all(explorer, monkeypatch):
    drawn = []
    monkeypatch.setattr(
        explorer._board, "draw", lambda mesh, *_, **__: drawn.append(str(mesh)) or explorer_blank(explorer)
    )
    explorer.choose(EIGHT)
    assert drawn == [EIGHT]
    assert explorer.order.value == "pp, dp_replicate, dp_shard, tp"
    for text, said in (
        ("tp=3", "does not divide"), ("cp=2", "'cp'"), ("dp_shard=17", "dp_shard"), ("pp=2 tp=3", "tp=3"),
        ("dp_shard=6 pp=2, 6 ranks a node", "ranks a node"), ("nonsense", "is no axis"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=said):
            explorer.choose(text)
    assert drawn == [EIGHT]
    assert str(explorer.choice) == EIGHT


def explorer_blank(explorer: MeshExplorer):
    return explorer._board.blank("")


def test_other_numbers_of_ranks_than_the_clusters_are_model_only(planned):
    assert not planned.run.disabled
    planned.choose(EIGHT)
    assert planned.run.disabled
    assert "Model only: a run is for meshes of the 4 ranks of this explorer's cluster." in words_of(planned)
    assert planned.run.tooltip.startswith("Model only")


def test_the_button_runs_this_mesh_on_ranks(cluster2):
    explorer = MeshExplorer(cluster2)
    explorer.choose("dp_shard=2, 1 ranks a node")
    explorer.run.click()
    assert (
        "Measured on ranks 0 to 1: they keep 1,813 KiB, 1,813 KiB; 2,719 KiB along dp_shard (2,719 KiB between nodes). "
        "From the model: no difference in memory and bytes; every rank holds the pieces that the model says."
    ) in words_of(explorer)
    assert not explorer.run.disabled


def test_what_was_measured_comes_back_with_its_mesh(planned):
    image = planned.image.value
    planned.run.click()
    assert planned.image.value != image
    planned.choose("tp=4")
    assert "Measured" not in words_of(planned)
    planned.choose("dp_replicate=4")
    assert "Measured on ranks 0 to 3: they keep 3,625 KiB" in words_of(planned)


def test_a_run_that_is_apart_from_the_model_is_told(planned, monkeypatch):
    def other(cluster, mesh, config, num_rows):
        first, *others = as_the_model_says(mesh, 1.1)
        return [WatchedRank(first.held_bytes, {}, first.sent_bytes), *others]

    monkeypatch.setattr(RUN, other)
    planned.choose("pp=2 tp=2, 2 ranks a node")
    planned.run.click()
    assert "From the model: memory up to 10.0% apart; bytes up to 10.0% apart; 1 of the ranks hold" in words_of(planned)


@pytest.mark.parametrize("kind", [RankError, RuntimeError, OSError, ValueError])
def test_ranks_that_fail_are_told_in_words_and_nothing_is_lost(planned, monkeypatch, kind):
    def fails(*_, **__):
        raise kind("the ranks are <gone>\nmore")

    planned.choose("pp=2 tp=2, 2 ranks a node")
    planned.run.click()
    before, choice = planned._measured[planned.choice], planned.choice
    monkeypatch.setattr(RUN, fails)
    planned.run.click()
    assert "could not run it: the ranks are &lt;gone&gt;<" in planned.words.value
    assert "mission 1: not yet." in planned.words.value
    assert planned.choice == choice
    assert planned._measured[choice] == before
    assert not planned.run.disabled


@pytest.mark.parametrize("cluster", ["two", SimpleNamespace(world_size="2")])
def test_what_is_no_cluster_is_refused_in_a_sentence(cluster):
    with pytest.raises(ValueError, match=r"is no cluster\. Give shared_cluster"):
        MeshExplorer(cluster)
