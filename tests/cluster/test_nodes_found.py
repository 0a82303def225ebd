"""Which nodes a notebook has, what it says of them, and wishes that no nodes can fulfil."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from local_nodes import no_more_of_the_second, two_local_nodes

from course_lib.cluster import Cluster
from course_lib.cluster.nodes import found
from course_lib.cluster.nodes.command import main
from course_lib.cluster.nodes.errors import NodesUnlike
from course_lib.cluster.nodes.node_set import NodeSet, places_of
from course_lib.cluster.nodes.record import VARIABLE, NodesRecord, record_path

pytestmark = [pytest.mark.xdist_group("nodes"), pytest.mark.limit_s(400.0)]


@pytest.fixture(scope="module")
def two_nodes(tmp_path_factory):
    """Two nodes on this machine, for the tests of this file."""
    with two_local_nodes(tmp_path_factory.mktemp("nodes")):
        yield


def test_wishes_that_no_nodes_can_fulfil(two_nodes, monkeypatch):
    from course_lib.cluster import Links

    with pytest.raises(ValueError, match=r"nodes=3 is more than answer, 2; use nodes=2"):
        Cluster(4, nodes=3)
    with pytest.raises(ValueError, match=r"nodes=2 is more than there are ranks, 1; use nodes=1"):
        places_of(1, 2)
    with pytest.raises(ValueError, match=r"links are shaped between ranks of one machine, and nodes=2"):
        Cluster(2, nodes=2, links=Links())
    assert Cluster(2, links=Links())._lifecycle.layout.nodes is None, "links stay on this machine"
    assert main(["up", "--local", "2"]) == 1, "they are up already"


def test_where_there_are_no_nodes(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "none.json"))
    with pytest.raises(ValueError, match=r"nodes=2, and this notebook has no nodes: name some by `course nodes up"):
        Cluster(2, nodes=2)
    for wrong in (0, -1, 1.5, True, "two"):
        with pytest.raises(ValueError, match="must be a whole number of at least 1"):
            found.nodes_here(wrong)
    assert main(["status"]) == 0
    assert main(["down"]) == 0
    assert "Your notebooks have no nodes" in capsys.readouterr().out
    for words, says in (
        (["up", "--local", "0"], "must be from 1 to 8; use 2"),
        (["up", "--hosts", " , "], "names no machine"),
        (["up", "--hosts", "a,a"], "names a machine twice"),
    ):
        assert main(words) == 1
        assert says in capsys.readouterr().err


def test_a_record_that_nobody_wrote(monkeypatch, tmp_path):
    path = tmp_path / "up.json"
    path.write_text("{")
    monkeypatch.setenv(VARIABLE, str(path))
    with pytest.raises(ValueError, match=r"up.json is no record of nodes .* `course nodes down` removes it"):
        Cluster(2)
    assert main(["down"]) == 0
    assert not path.exists()


def test_down_lets_the_nodes_go(monkeypatch, tmp_path, capsys):
    path = tmp_path / "up.json"
    monkeypatch.setenv(VARIABLE, str(path))
    NodesRecord(("here-0", "here-1"), "127.0.0.1", starter="here").write(path)
    assert NodesRecord.current() is not None
    assert main(["down"]) == 0
    assert not path.exists()
    assert NodesRecord.current() is None
    assert capsys.readouterr().out.startswith("Your notebooks have no nodes any more.")


def test_a_host_that_nobody_knows(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "up.json"))
    assert main(["up", "--hosts", "no-such-host.invalid"]) == 1
    assert "the host 'no-such-host.invalid' cannot be reached from here" in capsys.readouterr().err
    assert not record_path().exists()


def test_a_node_that_cannot_start_says_its_last_words(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "up.json"))
    monkeypatch.setattr(NodesRecord, "command", no_more_of_the_second(NodesRecord.command))
    assert main(["up", "--local", "2"]) == 1
    assert re.search(r"node 1 \(here-1\) .*: its line has closed \(exit code 1\): ZeroDiv", capsys.readouterr().err)
    assert not record_path().exists()


def test_nodes_that_are_unlike(two_nodes, monkeypatch):
    other = replace(found.nodes_here().nodes[0].facts, torch="1.0", python="3.8.1")
    fake = SimpleNamespace(meet=lambda folder: other)
    with pytest.raises(NodesUnlike, match=r"has Python 3.8 \(here: .*\) and PyTorch 1.0 \(here: .*\)\. Ranks that"):
        NodeSet([fake], "127.0.0.1").meet()


def test_the_command_for_a_host_is_one_word_for_its_shell():
    record = NodesRecord(("a",), "10.0.0.1", "/opt/my python", "/my course", ("-p2222",))
    *ssh, host, there = record.command("ada@a")[0]
    assert ssh[0] == "ssh"
    assert ssh[-1] == "-p2222"
    assert host == "ada@a"
    assert shlex.split(there) == [
        "env", "PYTHONPATH=/my course", "/opt/my python", "-m", "course_lib.cluster.nodes.agent_process"
    ]  # fmt: skip


def test_ranks_that_cannot_connect_say_by_which_network_they_tried(two_nodes):
    """To an address where nobody answers; PyTorch's own words of it."""
    from course_lib.cluster.base.failure import Cause, Failure

    with Cluster(2, timeout_s=120) as cluster:
        layout = cluster._lifecycle.layout
        refused = "Gloo connectFullMesh failed with [tcp/pair.cc] timed out connecting: No route to host"
        failure = Failure(0, "raised", (Cause("RuntimeError", refused, ()),), 0.0)
        assert "`course nodes up --address ADDRESS`" in layout.advice(failure)


def test_places():
    assert [(place.node, place.local_rank, place.local_size) for place in places_of(5, 2)] == [
        (0, 0, 3), (0, 1, 3), (0, 2, 3), (1, 0, 2), (1, 1, 2)
    ]  # fmt: skip


def test_what_a_node_takes_over_of_the_notebooks_surroundings(tmp_path, monkeypatch):
    from course_lib.cluster.nodes.localized import context_here_from
    from course_lib.cluster.process.caller_context import Context

    monkeypatch.setenv("HERE_AND_THERE", "the node's")
    monkeypatch.setenv("COURSE_HOME", "the node's")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    theirs = (("HERE_AND_THERE", "x"), ("ONLY_THERE", "y"), ("OMP_NUM_THREADS", "4"), ("COURSE_HOME", "z"))
    taken = context_here_from(Context("/no/such/folder", ("/no/such/path", str(tmp_path)), theirs))
    env = dict(taken.env)
    assert (env["HERE_AND_THERE"], env["ONLY_THERE"]) == ("the node's", "y")
    assert (env["OMP_NUM_THREADS"], env["COURSE_HOME"]) == ("4", "the node's")
    assert taken.cwd == os.path.expanduser("~")
    assert taken.sys_path[0] == str(tmp_path)
    assert Path(taken.cwd).is_dir()


def test_what_is_of_this_machine_stays_here(tmp_path, monkeypatch):
    """A record that cannot be read is an error for whoever asks for nodes."""
    from course_lib.devices import machine
    from course_lib.doctor.trials import check_all_reduce
    from course_lib.meter.calibration import calibration

    (tmp_path / "up.json").write_text("{")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "up.json"))
    monkeypatch.setattr(calibration, "measure_rates", no_rates)
    monkeypatch.setattr(calibration, "measure_together", lambda cluster, num_ranks: num_ranks)
    with pytest.raises(ValueError, match="is no record of nodes"):
        Cluster(2)
    assert check_all_reduce("gloo").detail.startswith("2 ranks on cpu")
    assert calibration.measure(machine()).link.latency_s > 0
    assert calibration.measure_all_together() == (2, 4)
    with found.on_this_machine(), pytest.raises(ValueError, match="is no record of nodes"):
        Cluster(2, nodes=2)


def no_rates(me, **options):
    from course_lib.meter.calibration.probes import Rates

    return Rates("none", {}, 1.0, 0.0)


def test_what_is_said_of_nodes_is_said_once_and_not_within_a_check(two_nodes, monkeypatch, capsys):
    from course_lib.base.front_end import taken_down
    from course_lib.cluster import Links
    from course_lib.cluster.api import placement

    monkeypatch.setattr(placement, "in_a_notebook", lambda: True)
    monkeypatch.setattr(placement, "_warned", set())
    with taken_down():
        one = Cluster(1)
        with one.shaped(links=Links()):
            pass
    assert capsys.readouterr().out == "", "it would stand among what the answer printed"
    for num_ranks, says in ((1, r"1 rank on 1 node: 1 on \S+\."), (3, r"3 ranks on 2 nodes: 2 on \S+, 1 on \S+\.")):
        for again in (False, True):
            Cluster(num_ranks)
            assert bool(re.fullmatch(f"{says}\n", capsys.readouterr().out)) is not again
    with one.shaped(links=Links()):
        pass
    assert (
        capsys.readouterr().out == "Links are shaped on this machine: 1 rank here stands in for ranks on your nodes.\n"
    )
    Cluster(2, links=Links())
    assert (
        capsys.readouterr().out == "Links are shaped on this machine: 2 ranks here stand in for ranks on your nodes.\n"
    )
    with Cluster(3).shaped(slow={1: 2.0}):
        pass
    assert capsys.readouterr().out == "", "nothing is shaped by a rank that is slow"
