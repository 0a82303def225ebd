"""Ranks over nodes: two agents on this machine stand for two machines, and all goes the way between machines."""

from __future__ import annotations

import os
import pickle
import re
import shlex
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from multiprocessing import Pipe
from pathlib import Path
from types import SimpleNamespace

import pytest
from local_nodes import agents, close_all, two_local_nodes
from waiting import wait_until

from course_lib.cluster import Cluster, RankFailed, RankInterrupted, RankTimeout
from course_lib.cluster.nodes import agent_process, found, node_clock
from course_lib.cluster.nodes import node as node_module
from course_lib.cluster.nodes.command import main
from course_lib.cluster.nodes.errors import NodeLost, NodesUnlike
from course_lib.cluster.nodes.meeting.table import MeetingTable
from course_lib.cluster.nodes.node import RemoteNode
from course_lib.cluster.nodes.node_set import NodeSet, places_of
from course_lib.cluster.nodes.record import VARIABLE, NodesRecord, record_path

pytestmark = [pytest.mark.xdist_group("nodes"), pytest.mark.limit_s(400.0)]


@pytest.fixture(scope="module")
def two_nodes(tmp_path_factory):
    """Two nodes on this machine, for the tests of this file."""
    with two_local_nodes(tmp_path_factory.mktemp("nodes")):
        yield


@pytest.fixture
def cluster(two_nodes):
    with Cluster(3, timeout_s=120) as over_two:
        yield over_two


def a_long_wait(file: Path):
    """A function that never comes back, and a way to do something once it has begun on a rank."""

    def wait_long(me):
        file.touch()
        threading.Event().wait()

    def when_begun(do):
        threading.Thread(target=lambda: (wait_until(file.exists, "a rank begins"), do()), daemon=True).start()

    return wait_long, when_begun


def place_and_sum(me):
    import torch
    import torch.distributed as dist

    total = torch.tensor([float(me.rank)], dtype=torch.float64)
    dist.all_reduce(total)
    print(f"rank {me.rank} sums up to {total.item():g}")
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
    return me.node, me.local_rank, total.item(), [int(os.environ[name]) for name in names]


def test_ranks_lie_on_the_nodes_as_torchrun_counts_them(cluster):
    run = cluster.run(place_and_sum)
    assert [run[rank] for rank in range(3)] == [
        (0, 0, 3.0, [0, 0, 3, 2]),
        (0, 1, 3.0, [1, 1, 3, 2]),
        (1, 0, 3.0, [2, 0, 3, 1]),
    ]
    assert [run.text[rank] for rank in range(3)] == [f"rank {rank} sums up to 3\n" for rank in range(3)]


def test_large_values_go_to_and_fro_bit_for_bit(cluster):
    import torch

    given = torch.randn(300_000, dtype=torch.float64).as_strided((100, 1000), (1000, 3))
    given.requires_grad_()

    def doubled(me, value):
        return value * 2, value.stride(), value.requires_grad

    run = cluster.call(doubled, (given,))
    for rank in range(3):
        value, stride, requires_grad = run[rank]
        assert torch.equal(value, given * 2)
        assert (stride, requires_grad) == (given.stride(), True)


def test_a_rank_that_fails_is_told_with_its_node(cluster):
    def fail_on_two(me):
        import torch
        import torch.distributed as dist

        if me.rank == 2:
            raise ValueError("no more")
        dist.all_reduce(torch.ones(1))

    with pytest.raises(RankFailed) as caught:
        cluster.run(fail_on_two)
    story = str(caught.value)
    assert story.startswith("rank 2 of 3 on node 1 (")
    assert "ValueError: no more" in story
    assert "rank 0 on node 0 (" in story
    assert "waits in all_reduce #1" in story
    assert cluster.run(place_and_sum)[0][2] == 3.0, "the next call works"


def test_a_hang_is_found_and_told(cluster):
    def leave_one_out(me):
        import torch
        import torch.distributed as dist

        if me.rank != 1:
            dist.all_reduce(torch.ones(1))

    with pytest.raises(RankTimeout) as caught:
        cluster.run(leave_one_out)
    assert caught.value.is_deadlock
    assert "Rank 1 never called all_reduce #1." in str(caught.value)


def test_a_killed_rank_is_told_and_replaced(cluster):
    def end_the_last(me):
        import torch
        import torch.distributed as dist

        if me.rank == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        dist.all_reduce(torch.ones(1))

    with pytest.raises(RankFailed, match=r"rank 2 of 3 on node 1 .* was killed by SIGKILL"):
        cluster.run(end_the_last)
    assert cluster.run(place_and_sum)[2][2] == 3.0


def test_an_interrupt_ends_the_call_and_the_next_one_works(cluster, tmp_path):
    wait_long, when_begun = a_long_wait(tmp_path / "begun")
    when_begun(lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(RankInterrupted, match="the 3 ranks have been stopped"):
        cluster.run(wait_long)
    assert cluster.run(place_and_sum)[1][2] == 3.0


def test_cells_keep_their_variables_over_a_failure(cluster):
    cluster.cell("kept = rank + 10", show=False)
    cluster.push(given=[1, 2])
    with pytest.raises(RankFailed, match="ZeroDivisionError"):
        cluster.cell("1 / 0 if rank == 1 else None")
    assert [cluster.pull("kept")[rank] for rank in range(3)] == [10, 11, 12]
    assert cluster.cell("given", show=False)[2] == "[1, 2]"


@pytest.mark.long
def test_two_clusters_and_two_notebooks_share_the_nodes(cluster):
    program = (
        "from course_lib.cluster import Cluster\n"
        "def twice(me):\n    return 2 * me.rank\n"
        "if __name__ == '__main__':\n"
        "    with Cluster(2) as cluster:\n        print([cluster.run(twice)[rank] for rank in range(2)])\n"
    )
    other = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    with Cluster(2, timeout_s=120) as second:
        assert second.run(place_and_sum)[1][:3] == (1, 0, 1.0)
        assert cluster.run(place_and_sum)[1][:3] == (0, 1, 3.0)
    assert other.communicate(timeout=200)[0].splitlines()[-1] == "[0, 2]"


def test_a_function_may_make_the_group_itself(two_nodes):
    def own_group(me):
        import torch
        import torch.distributed as dist

        dist.init_process_group("gloo")
        total = torch.ones(1)
        dist.all_reduce(total)
        return total.item()

    with Cluster(2, process_group=False, timeout_s=120) as cluster:
        assert cluster.run(own_group)[1] == 2.0


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


def test_a_host_that_nobody_knows(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "up.json"))
    assert main(["up", "--hosts", "no-such-host.invalid"]) == 1
    assert "the host 'no-such-host.invalid' cannot be reached from here" in capsys.readouterr().err
    assert not record_path().exists()


def test_a_node_that_goes_ends_the_call_and_the_next_works_on_what_is_left(monkeypatch, tmp_path):
    """On nodes of its own, for one of them is gone then."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "up.json"))
    NodesRecord(("here-0", "here-1"), "127.0.0.1", starter="here").write(tmp_path / "up.json")
    with Cluster(2, timeout_s=120) as cluster:
        cluster.run(place_and_sum)
        second = found.nodes_here().nodes[1]
        wait_long, when_begun = a_long_wait(tmp_path / "begun")
        when_begun(lambda: os.kill(second._process.pid, signal.SIGKILL))
        with pytest.raises(RankFailed, match=r"rank 1 of 2 on node 1 .* is gone: nothing is heard any more of node 1"):
            cluster.run(wait_long)
        with pytest.raises(NodeLost, match=r"node 1 .* has gone: its line has closed"):
            cluster.run(place_and_sum)
        assert cluster.is_closed, "shared_cluster makes another one"
    monkeypatch.setattr(NodesRecord, "command", no_more_of_the_second(NodesRecord.command))
    with Cluster(2, timeout_s=120) as rest:
        assert [rest.run(place_and_sum)[rank][0] for rank in range(2)] == [0, 0], "on what is left"
    said = found.nodes_here().in_words(2)
    assert re.fullmatch(r"2 ranks on 1 node: 2 on \S+\. here-1 does not answer\.", said), said
    close_all()


def no_more_of_the_second(plain):
    return lambda self, host: plain(self, host) if host != "here-1" else ([sys.executable, "-c", "1 / 0"], None)


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


@pytest.mark.long
def test_no_agent_outlives_a_notebook_that_was_killed(two_nodes):
    program = (
        "import os, signal\nfrom course_lib.cluster import Cluster\n"
        "cluster = Cluster(2)\ncluster.run(lambda me: None)\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    before = set(agents())
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -signal.SIGKILL
    wait_until(lambda: set(agents()) <= before, "its agents hear that their line has closed")


def test_an_agent_ends_when_its_notebook_is_not_heard_of(monkeypatch):
    monkeypatch.setattr(agent_process, "UNHEARD_S", 0.2)
    (incoming, asks), (answers, outgoing) = Pipe(duplex=False), Pipe(duplex=False)
    server = agent_process.AgentProcess(incoming, outgoing)
    asks.send_bytes(b"." + pickle.dumps((1, "no_such_method", ())))
    server.serve()  # comes back though the line is open
    number, kind, text = pickle.loads(answers.recv_bytes()[1:])
    assert (number, kind, "no_such_method" in text) == (1, "failed", True)


def test_the_command_for_a_host_is_one_word_for_its_shell():
    record = NodesRecord(("a",), "10.0.0.1", "/opt/my python", "/my course", ("-p2222",))
    *ssh, host, there = record.command("ada@a")[0]
    assert ssh[0] == "ssh"
    assert ssh[-1] == "-p2222"
    assert host == "ada@a"
    assert shlex.split(there) == [
        "env", "PYTHONPATH=/my course", "/opt/my python", "-m", "course_lib.cluster.nodes.agent_process"
    ]  # fmt: skip


def test_an_allocation_of_slurm_is_found(tmp_path, monkeypatch):
    for name, says in (("srun", ""), ("scontrol", "echo localhost; echo localhost")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{says}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert NodesRecord.of_allocation() is None
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[1-2]")
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "1")
    assert NodesRecord.of_allocation() is None
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "2")
    record = NodesRecord.of_allocation()
    assert (record.hosts, record.address, record.starter) == (("localhost", "localhost"), "127.0.0.1", "srun")
    words, env = record.command("n2")
    assert words[0] == "srun"
    assert "--nodelist=n2" in words
    assert env["PYTHONPATH"] == record.clone
    (tmp_path / "srun").unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert NodesRecord.of_allocation() is None, "an allocation that nothing here can reach"


def test_bytes_between_nodes_are_counted_apart(cluster):
    import torch

    from course_lib.meter import metered

    def two_messages(me, value):
        import torch
        import torch.distributed as dist

        if me.rank == 0:
            dist.send(value, 1)  # within node 0
            dist.send(value, 2)  # to node 1
        else:
            dist.recv(torch.empty_like(value), 0)

    seen = metered(cluster, two_messages, torch.zeros(1000, dtype=torch.float64)).communication
    assert (seen.total_bytes, seen.between_nodes_bytes) == (16_000, 8_000)
    assert seen.nodes == (0, 0, 1)
    assert seen.of(rank=0).between_nodes_bytes == 8_000
    assert "; between nodes 7.81 KiB" in str(seen)


def test_ranks_that_cannot_connect_say_by_which_network_they_tried(two_nodes):
    """To an address where nobody answers; PyTorch's own words of it."""
    from course_lib.cluster.base.failure import Cause, Failure

    with Cluster(2, timeout_s=120) as cluster:
        layout = cluster._lifecycle.layout
        refused = "Gloo connectFullMesh failed with [tcp/pair.cc] timed out connecting: No route to host"
        failure = Failure(0, "raised", (Cause("RuntimeError", refused, ()),), 0.0)
        assert "`course nodes up --address ADDRESS`" in layout.advice(failure)


@pytest.mark.long  # they try for two minutes
def test_ranks_that_cannot_meet_say_where_they_wanted_to(two_nodes, monkeypatch):
    """Each is told an address of the others at which nobody is, as behind a firewall."""
    plain = MeetingTable._set

    def set_elsewhere(table: MeetingTable, key: str, value: bytes) -> None:
        plain(table, key, value.replace(bytes((127, 0, 0, 1)), bytes((192, 0, 2, 1))))

    monkeypatch.setattr(MeetingTable, "_set", set_elsewhere)
    with Cluster(2, timeout_s=60) as cluster, pytest.raises(RankFailed, match=r"`course nodes up --address ADDRESS`"):
        cluster.run(place_and_sum)


def test_spans_of_a_rank_keep_time_with_the_notebook(cluster, monkeypatch):
    from course_lib.base.clock import now_s

    def span(me):
        from course_lib.meter import Timeline

        timeline = Timeline(me.rank)
        with timeline.span("work"):
            pass
        return timeline.spans[0].start_s

    before_s = now_s()
    run = cluster.run(span)
    after_s = now_s()
    assert all(before_s < run[rank] < after_s for rank in range(3))
    node = found.nodes_here().nodes[1]
    monkeypatch.setattr(node.clock, "behind_s", 1000.0)
    monkeypatch.setattr(node.clock, "take", lambda *_: None)
    with Cluster(2, timeout_s=120) as late:
        run = late.run(span)
    assert run[1] - run[0] > 900, "what was measured at the meeting is what its ranks go by"


def test_a_rank_that_died_between_two_calls_is_replaced(cluster, capsys, monkeypatch):
    pids = cluster.run(lambda me: os.getpid())
    cluster.push(kept=1)
    as_told = RemoteNode._take_in

    def not_yet(node, event):
        """News of its end are still on their way; who asks is told."""
        if event.kind != "died" or not threading.current_thread().name.startswith("node-"):
            as_told(node, event)

    monkeypatch.setattr(RemoteNode, "_take_in", not_yet)
    os.kill(pids[2], signal.SIGKILL)
    second, team = found.nodes_here().nodes[1], cluster._team._on_nodes._name
    wait_until(lambda: second.ask("look", team)[1] == {2: -signal.SIGKILL}, "its agent knows")
    assert cluster._team.is_complete, "and the notebook does not"
    capsys.readouterr()
    assert cluster.run(place_and_sum)[2][2] == 3.0
    assert capsys.readouterr().out.startswith("The ranks have ended since your last cell, and the variables of your")


def test_ranks_follow_a_clock_that_drifts(cluster, monkeypatch):
    def now(me):
        from course_lib.base.clock import now_s

        return now_s()

    before = cluster.run(now)
    plain = node_clock.clocks_here
    monkeypatch.setattr(node_module, "clocks_here", lambda: replace(plain(), job_s=plain().job_s + 1000))
    after = cluster.run(now)
    assert all(after[rank] - before[rank] > 900 for rank in range(3))
    monkeypatch.undo()
    assert all(abs(cluster.run(now)[rank] - after[rank]) > 900 for rank in range(3)), "and back"


def test_what_holds_up_a_rank_of_another_node_is_read_there(cluster):
    run = cluster.run(lambda me: (me.node, os.getpid()))
    seen = cluster._team._supervisor._threads(range(3))
    assert {process for process, _ in seen} == {(run[rank][0] << 32) + run[rank][1] for rank in range(3)}
    assert all(ran_s >= 0 and stood_s >= 0 for ran_s, stood_s in seen.values())
    pids = {process for process, _ in cluster._team._supervisor._threads([2])}
    assert pids == {(1 << 32) + run[2][1]}, "of those alone that are asked for"


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


@pytest.mark.long
@pytest.mark.limit_s(3000.0)
def test_after_faults_of_every_kind_the_next_call_is_right_or_says_what_is_missing():
    """``COURSE_NODE_FAULTS=300`` draws more than a night does."""
    count = int(os.environ.get("COURSE_NODE_FAULTS", "30"))
    program = Path(__file__).resolve().parents[1] / "support" / "node_trials.py"
    done = subprocess.run([sys.executable, str(program), str(count), "7"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{count} faults" in done.stdout
    assert "Traceback" not in done.stderr, done.stderr


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


def test_the_link_between_nodes_is_measured(cluster):
    from course_lib.cluster import Links
    from course_lib.meter import link_between_nodes

    link = link_between_nodes(cluster)
    assert re.fullmatch(r"measured between node 0 \(\S+\) and node 1 \(\S+\): latency \S+ .?s, \S+ MB/s", str(link))
    assert link.fit.latency_s > 0
    assert len(link.fit.samples) == 10, "the other end answers"
    with cluster.shaped(links=Links()):
        assert link_between_nodes(cluster) is None, "those ranks are all here"


def test_ranks_of_all_nodes_begin_with_the_same_random_numbers(cluster):
    """As forks of one server do on one machine: a model that is made without a seed is one model."""

    def drawn(me):
        import random

        import numpy as np
        import torch

        return torch.rand(2, dtype=torch.float64).tolist(), random.random(), float(np.random.rand())

    first = cluster.run(drawn)
    assert first[0] == first[1] == first[2]
    assert cluster.run(drawn)[2] == first[0], "and each run begins there"
    with Cluster(1, timeout_s=120) as alone:
        assert alone.run(drawn)[0] == first[0], "in each cluster of this notebook"


def stand_ins(folder, monkeypatch, **programs):
    """Programs of these names, first on the PATH; each writes its words into ``folder``/words."""
    for name, says in programs.items():
        (folder / name).write_text(f'#!/bin/sh\necho "$(basename "$0") $@" >> {folder}/words\n{says}\n')
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv(VARIABLE, str(folder / "up.json"))


GRANTED = "echo 'salloc: Granted job allocation 42' >&2"
NAMED = {"salloc": GRANTED, "squeue": "echo n1", "scontrol": "echo localhost"}
AS_HERE = 'while [ "${1#-}" != "$1" ]; do shift; done; exec "$@"'  # srun's own words, then what it starts


def test_nodes_are_asked_of_slurm_and_given_back(tmp_path, monkeypatch, capfd):
    names = "echo localhost; echo localhost"
    stand_ins(tmp_path, monkeypatch, salloc=GRANTED, squeue="echo n[1-2]", scontrol=names, scancel="", srun=AS_HERE)
    assert main(["up", "--slurm", "--gpus-per-node", "4", "--slurm-option=--partition=short"]) == 0
    said = capfd.readouterr().out
    assert "Slurm is asked for 2 nodes" in said
    assert "job 42: localhost, localhost" in said
    record = NodesRecord.read(tmp_path / "up.json")
    assert (record.starter, record.job) == ("srun", 42)
    assert "--jobid=42" in record.command("localhost")[0]
    words = (tmp_path / "words").read_text().splitlines()
    assert words[0] == "salloc --no-shell --nodes=2 --gpus-per-node=4 --partition=short"
    assert not [line for line in words if line.startswith("scancel")]
    assert main(["down"]) == 0
    assert (tmp_path / "words").read_text().splitlines()[-1] == "scancel 42"
    assert not (tmp_path / "up.json").exists()


@pytest.mark.parametrize(
    ("programs", "words", "told", "is_given_back"),
    [
        ({"salloc": "echo 'salloc: error: why' >&2; exit 1"}, [], "Slurm gave no nodes: salloc: error: why", 0),
        ({"salloc": "exit 1"}, [], "Slurm gave no nodes: it did not say why", 0),
        ({"salloc": f"{GRANTED}; echo 'salloc: no more' >&2; exit 1"}, [], "gave no nodes: salloc: no more", 1),
        ({"salloc": GRANTED, "squeue": ""}, [], "did not name the nodes of job 42", 1),
        (NAMED | {"scontrol": "echo no.such.host.here"}, [], "cannot be reached from here", 1),
        (NAMED | {"srun": "echo 'srun: error: no' >&2; exit 1"}, [], "srun: error: no", 1),
        ({"salloc": GRANTED}, ["--nodes", "0"], "--nodes 0 must be at least 1; use 2", 0),
        ({"salloc": GRANTED}, ["--gpus-per-node=-1"], "--gpus-per-node -1 must be at least 0", 0),
    ],
)  # fmt: skip
def test_slurm_that_gives_none_is_told_and_what_it_gave_goes_back(
    tmp_path, monkeypatch, capfd, programs, words, told, is_given_back
):
    stand_ins(tmp_path, monkeypatch, scancel="", **programs)
    assert main(["up", "--slurm", *words]) == 1
    assert told in capfd.readouterr().err
    asked = (tmp_path / "words").read_text() if (tmp_path / "words").exists() else ""
    assert asked.count("scancel 42") == is_given_back
    assert not (tmp_path / "up.json").exists()


def test_what_is_for_slurm_alone_is_told(tmp_path, monkeypatch, capsys):
    stand_ins(tmp_path, monkeypatch)
    assert main(["up", "--local", "2", "--nodes", "3"]) == 1
    assert "--nodes 3 is for --slurm" in capsys.readouterr().err
    for words, told in (
        (["--hosts", "a,b", "--slurm-option=--time=5"], "--slurm-option=--time=5 is for --slurm"),
        (["--local", "2", "--slurm-option=--time=5"], "--slurm-option=--time=5 is for --slurm"),
        (["--slurm", "--ssh-option=-p22"], "--ssh-option=-p22 is for --hosts"),
    ):
        assert main(["up", *words]) == 1
        assert told in capsys.readouterr().err
    assert not (tmp_path / "words").exists(), "Slurm was asked for nothing"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["up", "--slurm"]) == 1
    assert "salloc is not here" in capsys.readouterr().err


def test_an_interrupt_takes_the_question_to_slurm_back(tmp_path, monkeypatch):
    from course_lib.cluster.nodes import allocation

    takes_back = f"trap 'echo taken back >> {tmp_path}/words; exit 1' INT"
    asks = f"{takes_back}; {GRANTED}; kill -INT $PPID; while :; do sleep 0.1; done"
    stand_ins(tmp_path, monkeypatch, salloc=asks, scancel="")
    with pytest.raises(KeyboardInterrupt):
        allocation.allocate(2)
    assert "taken back" in (tmp_path / "words").read_text()
    assert (tmp_path / "words").read_text().splitlines()[-1] == "scancel 42"
