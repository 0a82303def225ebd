"""Nodes that run, as few as prove it: what meets, what is counted and slowed, who dies and comes back, what is left.

Programs here need no torch where the agents are what is tested: each import of it costs a second of a core.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from pathlib import Path

import psutil
import pytest
from waiting import HANG_LIMIT_S, wait_until

from course_lib.base.paths import project_root
from course_lib.cluster import NotSendable, RankInterrupted
from course_lib.layouts.link import Link
from course_lib.nodes import JobFailed, JobTimeout, Nodes
from course_lib.nodes import nodes as nodes_module
from course_lib.nodes.supervisor.capabilities import Capabilities, find_capabilities
from course_lib.nodes.supervisor.supervisor_client import SupervisorClient, _close

pytestmark = pytest.mark.skipif(os.name != "posix", reason="agents are ended by signals of POSIX")

BYTES_PER_S = 8e6
WAIT_S = 120
MARK = f"of {os.getpid()}"


@pytest.fixture(autouse=True)
def nothing_is_left(monkeypatch, tmp_path):
    """No process that a test here started, and no folder; the namespaces are gone with the last process in them."""
    monkeypatch.setenv("COURSE_TEST", MARK)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield
    _, alive = psutil.wait_procs(ours(), timeout=HANG_LIMIT_S)
    assert not alive, f"left behind: {alive}"
    assert not list(tmp_path.glob("ranks-*"))


def ours() -> list[psutil.Process]:
    """Processes of nodes that this process, or one that it started, has begun."""
    found = []
    for process in psutil.process_iter():
        try:
            is_of_nodes = "course_lib.nodes" in " ".join(process.cmdline())
            if is_of_nodes and process.environ().get("COURSE_TEST") == MARK:
                found.append(process)
        except psutil.Error:
            continue
    return found


@pytest.fixture
def program(tmp_path):
    def write(text: str) -> Path:
        path = tmp_path / "program.py"
        path.write_text(textwrap.dedent(text))
        return path

    return write


# -- what meets, what is counted, what is slowed ---------------------------------------------------------------------


def measure(me, sizes):
    """Who am I, does a sum come out, what do messages from rank 0 to rank 2, on the other node, take and count?"""
    import torch
    import torch.distributed as dist

    from course_lib.nodes import link_bytes

    total = torch.tensor([2.0**me.rank])
    dist.all_reduce(total)
    sent, times = [], []
    for size in sizes:
        data = torch.ones(size // 4) * (me.rank + 1)
        dist.barrier()
        before, began_s = link_bytes(), time.monotonic()
        if me.rank == 0:
            dist.send(data, 2)
            dist.recv(data, 2)
        if me.rank == 2:
            dist.recv(data, 0)
            dist.send(data, 0)
        times.append(time.monotonic() - began_s)
        dist.barrier()  # a send may return when its bytes still wait at the link
        after = link_bytes()
        sent.append(None if before is None else after[0] - before[0])
        assert me.rank != 2 or float(data[0]) == 1.0
    print(f"I am rank {me.rank}")
    return {
        "me": me,
        "group": int(os.environ["GROUP_RANK"]),
        "total": float(total),
        "sent": sent,
        "times": times,
    }


def check_measured(network: str) -> None:
    sizes = [1_000_000, 2_000_000]
    with Nodes(2, ranks_per_node=2, link=Link(0, BYTES_PER_S), network=network) as nodes:
        job = nodes.torchrun(measure, sizes).wait(WAIT_S)
        total = nodes.sent_bytes()
        has_namespaces = nodes.capabilities.has_namespaces
    results = job.results  # also after the nodes are gone
    assert [(r["me"].rank, r["me"].local_rank, r["me"].node, r["group"]) for r in results] == [
        (0, 0, 0, 0), (1, 1, 0, 0), (2, 0, 1, 1), (3, 1, 1, 1),
    ]  # fmt: skip
    assert [r["total"] for r in results] == [15.0] * 4
    assert job.log(rank=3).strip() == "I am rank 3"
    assert [event.what for event in job.events] == ["started", "started", "met", "finished", "finished"]
    burst_bytes = 64_000
    for size, there_and_back_s in zip(sizes, results[0]["times"], strict=True):
        assert there_and_back_s > 2 * (size - burst_bytes) / BYTES_PER_S  # a shaped link lets none be faster
    if has_namespaces:
        for rank in (0, 2):
            for size, sent in zip(sizes, results[rank]["sent"], strict=True):
                assert size < sent < 1.25 * size + 100_000
        assert all(3_000_000 < sent < 4_500_000 for sent in total)
    else:
        assert total is None
        assert results[0]["sent"] == [None, None]


# Lessons 12a and 12b do the same in every run.
@pytest.mark.long
def test_two_agents_meet_and_what_crosses_between_them_is_counted_and_slowed():
    check_measured("auto")


@pytest.mark.long
def test_the_same_on_loopback_where_the_course_slows_the_messages():
    check_measured("loopback")


# -- who dies, and comes back ----------------------------------------------------------------------------------------

STEPS = """
    import atexit, os, sys, time
    world, again = os.environ["WORLD_SIZE"], os.environ["TORCHELASTIC_RESTART_COUNT"]
    print("world", world, "restart", again, *sys.argv[1:], flush=True)
    atexit.register(print, "the end")
    stop, broken = sys.argv[1], sys.argv[1] + "-broken"
    while not os.path.exists(stop):
        if os.path.exists(broken):
            os.remove(broken)
            raise ConnectionError("Connection closed by peer")  # as in a collective; no agent tells it otherwise
        time.sleep(0.02)
"""


# Lessons 12a and 12b do the same in every run.
@pytest.mark.long
def test_a_killed_rank_restarts_both_nodes_and_a_killed_node_comes_back(program, tmp_path):
    stop = tmp_path / "stop"
    with Nodes(2, ranks_per_node=1, network="loopback") as nodes:
        job = nodes.torchrun(program(STEPS), stop, min_nodes=1, max_restarts=2, rendezvous="apart")
        with pytest.raises(RuntimeError, match="a job runs on these nodes"):
            nodes.torchrun(program(STEPS))
        job.wait_for("world 2 restart 0", rank=1, timeout_s=WAIT_S)
        job.kill(rank=1)
        job.wait_for("world 2 restart 1", rank=1, timeout_s=WAIT_S).wait_for("world 2", rank=0)
        with pytest.raises(ValueError, match="node 0 runs already"):
            job.start_node(0)
        job.kill(node=0)  # where the store of the rendezvous is not
        with pytest.raises(ValueError, match="node 0 has no agent that runs"):
            job.kill(node=0)
        Path(f"{stop}-broken").touch()
        job.wait_for("world 1", rank=0, timeout_s=WAIT_S)
        job.start_node(0)
        job.wait_for("world 2", rank=1, timeout_s=WAIT_S).wait_for("world 2", rank=0)
        with pytest.raises(RuntimeError, match="still runs"):
            _ = job.results
        stop.touch()
        job.wait(WAIT_S)
        with pytest.raises(ValueError, match="the job has ended"):
            job.start_node(1)
    assert "rank 1 (node 1) was killed by SIGKILL" in map(str, job.faults)
    told = [event.what for event in job.events if event.what != "failed"]
    expected = ["started", "started", "met", "killed", "restarted", "killed", "left", "restarted", "started"]
    assert told == [*expected, "joined", "restarted", "finished", "finished"]
    assert [text.split()[:2] for text in job.results] == [["world", "2"]] * 2
    assert all(text.endswith("the end\n") for text in job.results)
    assert str(stop) in job.results[0]  # its words


# -- what fails, and what hangs --------------------------------------------------------------------------------------

FAILS = """
    import os, time
    if os.environ["RANK"] == "1":
        raise ValueError("no such thing")
    time.sleep(1000)
"""


def test_a_program_that_fails_is_told_by_its_own_error_and_nothing_goes_on(program):
    with Nodes(1, ranks_per_node=2, network="loopback") as nodes:
        job = nodes.torchrun(program(FAILS))
        with pytest.raises(JobFailed, match=r"rank 1 \(node 0\) raised ValueError: no such thing \(program.py, line 4"):
            job.wait(WAIT_S)
        assert job.results == ["", ""]
        assert 'raise ValueError("no such thing")' in job.log(rank=1)
        assert "launch.py" not in job.log(rank=1)  # the program's own lines alone
        with pytest.raises(NotSendable, match="measure or an argument"):
            nodes.torchrun(measure, threading.Lock())
    with pytest.raises(RuntimeError, match="were closed"):
        nodes.torchrun(program(FAILS))


@pytest.mark.long
def test_a_node_that_never_comes_is_missed(program):
    with Nodes(2, ranks_per_node=1, network="loopback") as nodes:
        job = nodes.torchrun(program("print('here')\n"), rendezvous_timeout_s=3)
        job.kill(node=1)
        with pytest.raises(JobFailed, match="did not meet: node 0 waited for the other nodes until its timeout"):
            job.wait(WAIT_S)


# Lessons 12a and 12b do the same in every run.
@pytest.mark.long
def test_a_hang_is_ended_at_its_limit_and_the_ranks_say_where_they_stand(program):
    with Nodes(1, ranks_per_node=1, network="loopback") as nodes:
        job = nodes.torchrun(program("import time\nprint('here')\ntime.sleep(1000)\n")).wait_for("here", rank=0)
        with pytest.raises(JobTimeout, match=r'rank 0 \(node 0\) stood in ".*program.py", line 3'):
            job.wait(0.2)


# -- nothing is left -------------------------------------------------------------------------------------------------

OWNER = """
    import sys
    from course_lib.nodes import Nodes
    nodes = Nodes(1, ranks_per_node=1)
    job = nodes.torchrun(sys.argv[1], sys.argv[2]).wait_for("world 1", rank=0)
    print(nodes._supervisor.folder, flush=True)
    job.wait(1000)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.long)])
def test_an_owner_that_is_killed_or_interrupted_takes_all_with_it(program, tmp_path, number):
    steps = tmp_path / "steps.py"
    steps.write_text(textwrap.dedent(STEPS))
    env = {**os.environ, "PYTHONPATH": str(project_root())}
    words = [sys.executable, str(program(OWNER)), str(steps), str(tmp_path / "never")]
    owner = subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        folder = Path(owner.stdout.readline().strip())
        assert folder.is_dir()
        assert folder != Path(".")
        family = psutil.Process(owner.pid).children(recursive=True)
        assert len(family) >= 3  # the supervisor, the agent, the rank
        owner.send_signal(number)
        owner.communicate(timeout=60)
        _, alive = psutil.wait_procs(family, timeout=HANG_LIMIT_S)
        assert not alive
        wait_until(lambda: not folder.exists(), "the folder is removed")
    finally:
        owner.kill()
        owner.communicate()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the kernel does not end children with their parent")
def test_a_supervisor_that_is_killed_takes_all_with_it(program):
    nodes = Nodes(2, ranks_per_node=1)
    job = nodes.torchrun(program("import time\nprint('here')\ntime.sleep(1000)\n"))
    supervisor = psutil.Process(nodes._supervisor._process.pid)
    wait_until(lambda: len(supervisor.children(recursive=True)) >= 2, "its agents have begun")
    family = supervisor.children(recursive=True)
    supervisor.kill()
    _, alive = psutil.wait_procs(family, timeout=HANG_LIMIT_S)
    assert not alive
    with pytest.raises(RuntimeError, match="the process that keeps the nodes has ended; make new Nodes"):
        job.wait(WAIT_S)
    nodes.close()


def test_networks_that_are_refused_after_the_trial_leave_loopback_and_the_reason(monkeypatch):
    ask = SupervisorClient.ask
    refused = {"refused": "'ip link add' was refused"}
    monkeypatch.setattr(nodes_module, "find_capabilities", lambda network: Capabilities(True, has_tbf=True))
    monkeypatch.setattr(
        SupervisorClient, "ask", lambda self, do, **what: refused if do == "open" else ask(self, do, **what)
    )
    with Nodes(2) as nodes:
        assert "(no namespaces here: 'ip link add' was refused)" in str(nodes)
        assert nodes.sent_bytes() is None


@pytest.mark.parametrize("place", ["find_capabilities", "SupervisorClient.ask"])
def test_an_interrupt_while_nodes_are_made_is_a_sentence_and_leaves_nothing(monkeypatch, place):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    made = []
    plain = SupervisorClient.__init__
    monkeypatch.setattr(SupervisorClient, "__init__", lambda self: made.append(self) or plain(self))
    monkeypatch.setattr(nodes_module, "find_capabilities", lambda network: Capabilities(True, has_tbf=True))
    monkeypatch.setattr(f"{nodes_module.__name__}.{place}", interrupt)
    with pytest.raises(RankInterrupted, match=r"Interrupted while the nodes were made\. None of them is left"):
        Nodes(2)
    assert [one.is_closed for one in made] == [True] * (place != "find_capabilities")


def test_the_answer_to_a_question_whose_asker_was_interrupted_is_not_taken_for_the_next():
    client = SupervisorClient()
    client._line.sendall(b'{"do": "count", "number_of_question": -1}\n')
    assert client.ask("alive")["nodes"] == []
    assert client.news(0.0) == []
    client.close()
    client.close()
    assert client.is_closed


def test_a_fork_of_the_owner_ends_nothing():
    ours, its = socket.socketpair()
    _close(ours, None, Path("/nowhere"), owner=os.getpid() + 1)
    ours.sendall(b"still open")
    ours.close()
    its.close()


def test_this_machine_is_looked_at_once_and_says_why_not():
    found = find_capabilities()
    assert found is find_capabilities()
    assert found.has_namespaces or found.reason
