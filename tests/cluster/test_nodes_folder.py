"""A folder for files that ranks and notebook share: on one machine, on nodes that see it, and on nodes that do not."""

from __future__ import annotations

import gc
import tempfile
from pathlib import Path

import pytest
from local_nodes import two_local_nodes

from course_lib.cluster import Cluster, folder_for_ranks
from course_lib.cluster.api import rank_folder

pytestmark = [pytest.mark.xdist_group("nodes"), pytest.mark.limit_s(400.0)]


@pytest.fixture(scope="module")
def on_two_nodes(tmp_path_factory):
    with two_local_nodes(tmp_path_factory.mktemp("nodes")), Cluster(3, timeout_s=120) as cluster:
        yield cluster


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Where temporary files are, and the course's home."""
    temporary, home = tmp_path / "temporary", tmp_path / "home"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setenv("COURSE_HOME", str(home))
    return temporary, home


def writes_unless_within(*hidden):
    """On ranks of nodes that do not see these folders."""

    def write_there(me, folder):
        if not any(folder.startswith(str(place)) for place in hidden):
            Path(folder, str(me.rank)).touch()

    return write_there


def test_on_one_machine_it_is_where_temporary_files_are(places):
    with Cluster(2) as cluster, folder_for_ranks(cluster) as folder:
        assert Path(folder).parent == places[0]
        cluster.call(lambda me, place: Path(place, f"of-{me.rank}").touch(), (folder,), show=False)
        assert {path.name for path in Path(folder).iterdir()} == {"of-0", "of-1"}
    assert not list(places[0].iterdir())


def test_on_nodes_that_see_it_it_is_there_too_and_leaves_nothing(on_two_nodes, places):
    with folder_for_ranks(on_two_nodes) as folder:
        assert places[0] in Path(folder).parents
        assert not list(Path(folder).iterdir()), "what the ranks wrote to try it has gone"
        on_two_nodes.call(lambda me, place: Path(place, f"of-{me.rank}").touch(), (folder,), show=False)
        assert len(list(Path(folder).iterdir())) == 3
    gc.collect()
    assert not [path for path in places[0].iterdir() if path.name.startswith("ranks-") and folder.startswith(str(path))]


def test_a_folder_that_nodes_do_not_see_is_passed_over(on_two_nodes, places, monkeypatch):
    monkeypatch.setattr(rank_folder, "_write_there", writes_unless_within(places[0]))
    with folder_for_ranks(on_two_nodes) as folder:
        assert places[1] in Path(folder).parents


def test_one_blind_rank_is_enough(on_two_nodes, places, monkeypatch):
    def all_but_the_last(me, folder):
        if me.rank < 2:
            Path(folder, str(me.rank)).touch()

    monkeypatch.setattr(rank_folder, "_write_there", all_but_the_last)
    with pytest.raises(ValueError, match="your nodes share no folder with this notebook"):
        folder_for_ranks(on_two_nodes)


def test_where_they_share_none_it_says_what_to_do_and_leaves_nothing(on_two_nodes, places, monkeypatch):
    monkeypatch.setattr(rank_folder, "_write_there", writes_unless_within(*places))
    with pytest.raises(
        ValueError, match=r"neither .*temporary nor .*home.*Set TMPDIR .* nodes down` and restart"
    ) as told:
        folder_for_ranks(on_two_nodes)
    del told
    gc.collect()
    assert not [path for place in places for path in place.rglob("*") if path.is_dir() and path.name.startswith("tmp")]


def test_a_home_that_cannot_be_written_is_one_that_they_do_not_share(on_two_nodes, places, monkeypatch):
    places[1].write_text("no folder")
    monkeypatch.setattr(rank_folder, "_write_there", writes_unless_within(places[0]))
    with pytest.raises(ValueError, match="neither"):
        folder_for_ranks(on_two_nodes)


@pytest.mark.parametrize("nonsense", [4, None, "four", [1, 2]])
def test_what_is_no_cluster_gets_a_sentence(nonsense):
    with pytest.raises(TypeError, match="needs a Cluster, such as shared_cluster"):
        folder_for_ranks(nonsense)
