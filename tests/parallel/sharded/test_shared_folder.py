"""Checkpoints of ranks on several nodes: a folder that they do not share is told before anything is written."""

from __future__ import annotations

import os
from pathlib import Path
from unittest import mock

import mesh_cases
import pytest
import sharded_cases

from course_lib.cluster import RankFailed
from course_lib.cluster.base import shared_folder
from course_lib.cluster.base.shared_folder import check_all_nodes_see, check_shared_folder
from course_lib.layouts.mesh import Mesh
from course_lib.parallel.mesh import OnMesh, load_on_mesh, save_on_mesh
from course_lib.parallel.sharded import FullySharded, load_sharded, save_sharded, start_save_sharded

pytestmark = [
    pytest.mark.xdist_group("sharded"),
    pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]
SENTENCE = r"ValueError: .*/step-1 is not one folder for all nodes: .* \(rank 1\) does not see "


def as_on_two_nodes(me, do, *args):
    """Each rank alone on a node; the second does not see what the first has written."""

    def sees(path):
        return me.rank == 0 and path.exists()

    with (
        mock.patch.dict(os.environ, {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}),
        mock.patch.object(shared_folder, "_sees", sees),
    ):
        do(me, *args)


def shards(me):
    return FullySharded(me, sharded_cases.odd())


def on_mesh(me):
    return OnMesh(me, Mesh.parse("dp_replicate=2"), mesh_cases.whole("tied"))


def save(me, folder):
    save_sharded(folder, shards(me))


def start_save(me, folder):
    start_save_sharded(folder, shards(me))()


def load(me, folder):
    load_sharded(folder, shards(me))


@pytest.mark.parametrize("do", [save, start_save])
def test_a_save_into_a_folder_of_one_node_writes_nothing(cluster2, tmp_path, do):
    with pytest.raises(RankFailed, match=SENTENCE + "what rank 0 wrote there") as caught:
        cluster2.call(as_on_two_nodes, (do, tmp_path / "step-1"), show=False)
    assert set(caught.value.failures) == {0, 1}, "both say so, and nobody waits"
    assert "full_state_dict(), then save_by_one()" in str(caught.value)
    assert list((tmp_path / "step-1").iterdir()) == []


def test_a_load_from_a_folder_of_one_node(cluster2, tmp_path):
    cluster2.call(save, (tmp_path / "step-1",), show=False)
    with pytest.raises(RankFailed, match=SENTENCE + r"\.metadata in it, and others do"):
        cluster2.call(as_on_two_nodes, (load, tmp_path / "step-1"), show=False)
    with pytest.raises(RankFailed, match="holds no complete checkpoint"):
        cluster2.call(as_on_two_nodes, (load, tmp_path / "step-2"), show=False)


def test_a_mesh_says_so_too(cluster2, tmp_path):
    def save(me, folder):
        save_on_mesh(folder, on_mesh(me))

    def load(me, folder):
        load_on_mesh(folder, on_mesh(me))

    with pytest.raises(RankFailed, match=SENTENCE + "what rank 0 wrote there"):
        cluster2.call(as_on_two_nodes, (save, tmp_path / "step-1"), show=False)
    cluster2.call(save, (tmp_path / "step-1",), show=False)
    with pytest.raises(RankFailed, match=SENTENCE + r"\.metadata"):
        cluster2.call(as_on_two_nodes, (load, tmp_path / "step-1"), show=False)


def test_a_folder_that_all_nodes_see_is_left_without_the_probe(cluster2, tmp_path):
    def check(me, folder):
        with mock.patch.dict(os.environ, {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}):
            check_shared_folder(folder)
            check_all_nodes_see(folder)

    cluster2.call(check, (tmp_path / "step-1",), show=False)
    assert list((tmp_path / "step-1").iterdir()) == []


def test_a_place_where_rank_0_cannot_write(cluster2, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(RankFailed, match=r"rank 0 cannot write into .*Give a folder that all nodes share") as caught:
        cluster2.call(as_on_two_nodes, (save, tmp_path / "file" / "step-1"), show=False)
    assert set(caught.value.failures) == {0, 1}


def test_on_one_machine_nothing_is_asked_or_sent(cluster2, tmp_path):
    def check(me, folder):
        with mock.patch.object(shared_folder, "dist") as dist, mock.patch.object(Path, "exists") as looked:
            check_shared_folder(folder)
            check_all_nodes_see(folder)
        return len(dist.broadcast_object_list.mock_calls) + len(dist.all_gather_object.mock_calls), looked.called

    assert list(cluster2.call(check, (tmp_path,), show=False)) == [(0, False)] * 2
