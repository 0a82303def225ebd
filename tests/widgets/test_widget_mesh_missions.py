"""The missions of the mesh explorer: what reaches them, what does not, and what is said of that."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from mesh_watched import RUN, as_the_model_says

from course_lib.layouts.mesh import Mesh
from course_lib.widgets import MeshChoice, MeshExplorer, every_mesh_choice
from course_lib.widgets.mesh import explorer as mesh_explorer
from course_lib.widgets.mesh.choice import AXES, PARAMETERS
from course_lib.widgets.mesh.missions import MISSIONS

EIGHT = "pp=2 dp_shard=2 tp=2, 4 ranks a node"


@pytest.fixture
def planned(monkeypatch) -> MeshExplorer:
    monkeypatch.setattr(RUN, lambda cluster, mesh, config, num_rows: as_the_model_says(mesh))
    return MeshExplorer(SimpleNamespace(world_size=4))


def test_the_first_mission_asks_for_the_axes_and_for_their_order():
    mission = MISSIONS[0]
    reached = [str(choice.mesh) for choice in every_mesh_choice(8, 4) if not mission.missed(choice, {})]
    assert reached == [f"{axes}, 4 ranks a node" for axes in (
        "pp=2 dp_shard=2 tp=2", "pp=2 tp=2 dp_shard=2", "pp=2 dp_shard=4")]  # fmt: skip
    missed = {text: mission.missed(MeshChoice(Mesh.parse(text)), {}) for text in (
        "pp=2 tp=2", "dp_replicate=8, 4 ranks a node", "dp_shard=2 pp=2 tp=2, 4 ranks a node")}  # fmt: skip
    assert list(missed.values()) == [
        "This mission is for 8 ranks on 2 nodes.",
        "A rank keeps 3,625 KiB; the mission allows at most 500 KiB.",
        "In a step 8,248 KiB pass between nodes; the mission allows at most 1,024 KiB.",
    ]
    explorer = MeshExplorer()
    explorer.choose(EIGHT)
    explorer.choose("dp_replicate=4")  # once reached, it stays so
    assert f"mission 1: reached ({EIGHT})" in explorer.missions
    assert "missions reached: 1 of 3" in repr(explorer)


def test_the_second_mission_is_decided_by_two_runs(planned):
    said = []
    for text, clicks in (
        ("dp_replicate=4", 0),
        ("dp_shard=2 tp=2", 1),
        ("tp=2 dp_shard=2", 1),
        ("pp=2 tp=2", 1),
        ("tp=2 pp=2", 0),
    ):
        planned.choose(f"{text}, 2 ranks a node")
        if clicks:
            planned.run.click()
        said.append(planned.missions.splitlines()[1])
    assert said == [
        "mission 2: not yet. Ranks of this mesh differ along dp_replicate alone; an order of axes needs two of them.",
        "mission 2: not yet. This mission needs runs of two orders of the same axes. So far 1 of the two has run.",
        "mission 2: not yet. Ranks sent 2,750 KiB between nodes in one order and 9,240 KiB in another, 3.4 times as "
        "much; the mission asks for 8 times.",
        "mission 2: not yet. This mission needs runs of two orders of the same axes. So far 1 of the two has run.",
        "mission 2: not yet. This mission needs runs of two orders of the same axes. So far 1 of the two has run.",
    ]  # fmt: skip
    planned.run.click()
    assert "mission 2: reached (tp=2 pp=2, 2 ranks a node)" in planned.missions


def test_the_third_mission_wants_every_number_on_both_nodes():
    mission = MISSIONS[2]
    reached = [choice for choice in every_mesh_choice(8, 4) if not mission.missed(choice, {})]
    assert {choice.mesh.axes[0] for choice in reached} == {"dp_replicate"}
    assert {choice.mesh.shape[0] for choice in reached} == {2}
    lost = mission.missed(MeshChoice(Mesh.parse("pp=2 dp_replicate=4, 4 ranks a node")), {})
    assert (
        lost == "Rows 0-255, columns 0-63 of stem.tokens.weight are on node 0 alone, and would be lost with that node."
    )
    much = mission.missed(MeshChoice(Mesh.parse("dp_replicate=4 tp=2, 4 ranks a node")), {})
    assert much == "A rank keeps 1,833 KiB; the mission allows at most 1,000 KiB."


def test_no_mission_is_reached_by_what_the_explorer_begins_with():
    for num_ranks in (2, 3, 4, 6, 8):
        start = MeshExplorer(SimpleNamespace(world_size=num_ranks))
        assert "reached (" not in start.missions
    assert len(PARAMETERS) == len(set(PARAMETERS)) == 36
    assert mesh_explorer._ORDERS[start.order.value] == AXES
