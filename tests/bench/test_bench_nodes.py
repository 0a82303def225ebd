"""``course bench nodes``: its job on ranks of the course and of torchrun, tiny, and which nodes it takes."""

from __future__ import annotations

import os

import pytest

from course_lib.authoring.bench.two_nodes import nodes
from course_lib.cluster import Cluster, Links
from course_lib.cluster.nodes.found import nodes_here
from course_lib.cluster.nodes.record import VARIABLE, NodesRecord

TINY = (8, 64)


@pytest.fixture
def no_nodes(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "none.json"))


def test_without_nodes_it_makes_two_of_this_machine_and_lets_them_go(no_nodes):
    before = os.environ[VARIABLE]
    with nodes.two_nodes() as are_here:
        assert are_here
        made = nodes_here(2).nodes
        assert [node.number for node in made] == [0, 1]
    assert all(node.is_lost for node in made)
    assert os.environ[VARIABLE] == before
    assert nodes_here() is None


@pytest.mark.parametrize(("starter", "are_here"), [("ssh", False), ("here", True)])
def test_nodes_that_are_recorded_are_taken(starter, are_here, tmp_path, monkeypatch):
    record = NodesRecord(("a", "b"), "127.0.0.1", starter=starter)
    record.write(tmp_path / "up.json")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "up.json"))
    with nodes.two_nodes() as found:
        assert found is are_here
        assert NodesRecord.current() == record


def test_nodes_that_are_off_are_made_all_the_same(monkeypatch):
    monkeypatch.setenv(VARIABLE, "off")
    monkeypatch.setattr(nodes, "nodes_here", lambda: None)
    with nodes.two_nodes():
        assert NodesRecord.current().starter == "here"
    assert os.environ[VARIABLE] == "off"


def is_whole(found, rounds):
    return list(found["times_s"]) == ["8", "64"] and all(len(times) == rounds for times in found["times_s"].values())


def test_the_job_on_ranks_of_the_course():
    with Cluster(2, links=Links(), timeout_s=120) as cluster:
        found = cluster.call(lambda me: nodes.begun_and_timed(3, TINY), show=False)
        assert all(is_whole(found[rank], 3) for rank in range(2))
        assert found[0]["times_s"] == found[1]["times_s"], "each time is that of the slowest"


@pytest.mark.parametrize("kind", ["reach", "way"])
def test_pairs_on_four_ranks(kind):
    names = {"reach": ("within a node", "between nodes"), "way": ("flat", "hierarchical")}[kind]
    with Cluster(4, links=Links(), timeout_s=120) as cluster:
        run = cluster.call(nodes.paired, (kind, 64, 2), show=False)
    assert (run[0].first.name, run[0].second.name) == names
    assert len(run[0].ratios) == 2
    assert not run.leaks, "its groups are destroyed"


@pytest.mark.long
@pytest.mark.limit_s(600.0)
def test_two_agents_of_torchrun_do_the_job():
    assert is_whole(nodes.fresh_torchrun(2, 2, TINY), 2)


@pytest.mark.long
@pytest.mark.limit_s(900.0)
def test_a_fresh_python_does_it_on_nodes(no_nodes):
    with nodes.two_nodes():
        assert is_whole(nodes.fresh_cluster(2, 2, TINY), 2)


def test_torchrun_that_fails_is_told_in_its_own_words(monkeypatch):
    monkeypatch.setattr(nodes, "_JOB", "no_such_module")
    monkeypatch.setattr(nodes.subprocess, "Popen", Agent)
    with pytest.raises(RuntimeError, match=r"torchrun did not do the job:\n.*No module named no_such_module"):
        nodes.fresh_torchrun(4, 2, TINY)


class Agent:
    """One that looks for its job, and ends."""

    def __init__(self, words, **options):
        self.said = ("", f"No module named {words[words.index('--node-rank') + 3]}\n")

    def communicate(self, timeout):
        return self.said

    def kill(self):
        pass


class OfStarts:
    """A table that keeps what it is given."""

    def __init__(self):
        self.rows = {}

    def add(self, what, samples, unit, **options):
        self.rows[what] = (list(samples), unit)


def test_starts_are_told_in_pairs(monkeypatch):
    clock = iter([100.0, 200.0, 300.0, 400.0])
    monkeypatch.setattr(nodes, "now_s", lambda: next(clock))
    begun = {"ours": iter([110.0, 430.0]), "theirs": iter([205.0, 310.0])}
    for name, mine in (("fresh_cluster", "ours"), ("fresh_torchrun", "theirs")):
        times_s = {"8": [0.001, 0.004, 0.002] if mine == "ours" else [0.004, 0.004, 0.004]}
        monkeypatch.setattr(nodes, name, lambda *_, of=begun[mine], t=times_s: {"begun_s": next(of), "times_s": t})
    table = OfStarts()
    nodes.add_starts(table, 4, 2, (8,), with_torchrun=True)
    assert table.rows == {
        "fresh start, 4 ranks: the course": ([10.0, 30.0], "s"),
        "fresh start, 4 ranks: torchrun": ([5.0, 10.0], "s"),
        "fresh start, 4 ranks: course / torchrun": ([2.0, 3.0], "x"),
        "all-reduce over all, 8 B, 4 ranks: the course": ([2.0, 2.0], "ms"),
        "all-reduce over all, 8 B, 4 ranks: torchrun": ([4.0, 4.0], "ms"),
        "all-reduce over all, 8 B, 4 ranks: course / torchrun": ([0.5, 0.5], "x"),
    }
