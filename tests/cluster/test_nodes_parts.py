"""The parts of nodes by themselves: clocks, the line to an agent, an agent that is busy, stopped, or not heard."""

from __future__ import annotations

import os
import pickle
import re
import signal
import sys
import threading
from multiprocessing import Pipe
from types import SimpleNamespace

import pytest
from waiting import all_ended, wait_until

from course_lib.cluster.nodes import agent_process, found, node
from course_lib.cluster.nodes.command import _clock_words
from course_lib.cluster.nodes.errors import NodeLost
from course_lib.cluster.nodes.facts import NodeFacts
from course_lib.cluster.nodes.line import _PIECE, Line, _pieces
from course_lib.cluster.nodes.node import RemoteNode
from course_lib.cluster.nodes.node_clock import ClockReading, NodeClock
from course_lib.cluster.nodes.record import NodesRecord

pytestmark = pytest.mark.limit_s(200.0)

AN_AGENT = """
import os, sys, time
from multiprocessing.connection import Connection
from types import SimpleNamespace
from course_lib.cluster.nodes.agent_process import AgentProcess
from course_lib.cluster.nodes.node_clock import clocks_here

server = AgentProcess(Connection(os.dup(0), writable=False), Connection(os.dup(1), readable=False))
server.agent = SimpleNamespace(clocks=clocks_here, slow=lambda: time.sleep(4) or "done", close=lambda: None)
server.serve()
"""
READS_NOTHING = "import time; time.sleep(1000)"


def reading(job_s: float, day_s: float = 0.0) -> ClockReading:
    return ClockReading(job_s, day_s)


def asked(clock: NodeClock, at_s: float, took_s: float, behind_s: float, ahead_s: float = 0.0) -> None:
    """The node answers in the middle of the way, and its clock is ``behind_s`` behind."""
    theirs = reading(at_s + took_s / 2 - behind_s, at_s + took_s / 2 + ahead_s)
    clock.take(reading(at_s, at_s), theirs, reading(at_s + took_s, at_s + took_s))


def test_a_clock_that_drifts_is_set_again():
    clock = NodeClock()
    asked(clock, 100, 0.2, behind_s=5.0, ahead_s=7.0)
    assert (clock.behind_s, clock.day_ahead_s) == (pytest.approx(5.0), pytest.approx(7.0))
    asked(clock, 200, 0.6, behind_s=5.3)
    assert clock.behind_s == pytest.approx(5.0), "a longer way, and both may be right: 0.1 and 0.3 s to each side"
    asked(clock, 300, 0.6, behind_s=5.5, ahead_s=8.0)
    assert (clock.behind_s, clock.day_ahead_s) == (pytest.approx(5.5), pytest.approx(8.0)), "both cannot be right"
    asked(clock, 400, 0.6, behind_s=5.6)
    assert clock.behind_s == pytest.approx(5.6), "as sharp, and newer"
    asked(clock, 500, 0.6, behind_s=4.0)
    assert clock.behind_s == pytest.approx(4.0), "it may be set back, too"


def test_a_time_of_day_that_is_apart_is_told_with_what_to_type():
    clock = NodeClock()
    asked(clock, 100, 0.2, behind_s=0.0, ahead_s=1.0)
    assert _clock_words(clock) == ""
    for ahead_s, where in ((75.2, "75 s ahead of"), (-3600.0, "3,600 s behind")):
        asked(clock, 100, 0.1, behind_s=0.0, ahead_s=ahead_s)
        assert _clock_words(clock) == (
            f"; its clock is {where} this machine's: type `sudo timedatectl set-ntp true` on both"
        )


def test_a_time_of_day_that_is_not_known_so_well_is_not_told():
    clock = NodeClock()
    asked(clock, 100, 20.0, behind_s=0.0, ahead_s=5.0)
    assert _clock_words(clock) == ""


def test_versions_that_have_to_be_alike():
    facts = NodeFacts("a", "3.11.7", "2.13.0", "0.1.1", cores=2, num_gpus=0, has_folder=True)
    assert facts.versions == {"Python": "3.11", "PyTorch": "2.13.0", "this course": "0.1.1"}


def test_ssh_waits_longer_than_tcp_takes_to_send_again_after_five_seconds():
    words = " ".join(NodesRecord(("a",), "10.0.0.1").command("a")[0])
    every_s, times = (int(re.search(rf"{name}=(\d+)", words)[1]) for name in ("AliveInterval", "AliveCountMax"))
    assert every_s * times > 6.4, "0.2 s and twice as long each time: 0.2 + 0.4 + ... + 3.2 s, and some more"


def a_line() -> tuple[Line, Line]:
    (here_in, there_out), (there_in, here_out) = Pipe(duplex=False), Pipe(duplex=False)
    lines = Line(here_in, here_out), Line(there_in, there_out)
    for line in lines:
        threading.Thread(target=line.speak, daemon=True).start()
    return lines


@pytest.mark.parametrize("size", [0, 1, _PIECE - 1, _PIECE, 3 * _PIECE + 5])
def test_messages_of_any_size_arrive_in_their_order(size):
    here, there = a_line()
    for message in (size, bytes(size), "last"):
        here.put(message)
    assert [there.take() for _ in range(3)] == [size, bytes(size), "last"]
    here.end()
    with pytest.raises(EOFError):
        there.take()


@pytest.mark.parametrize(("size", "marks"), [(1, b"."), (_PIECE, b"."), (_PIECE + 1, b"+."), (2 * _PIECE, b"+.")])
def test_the_last_piece_of_a_message_is_marked(size, marks):
    pieces = list(_pieces(bytes(size)))
    assert b"".join(piece[:1] for piece in pieces) == marks
    assert sum(len(piece) - 1 for piece in pieces) == size


def test_a_large_message_is_seen_to_move_before_it_is_there():
    here, there = a_line()
    before_s = there.heard_s, here.moved_s
    here.put(bytes(3 * _PIECE))
    there._incoming.recv_bytes = two_pieces_and_no_more(there._incoming.recv_bytes)
    with pytest.raises(EOFError):
        there.take()
    assert (there.heard_s, here.moved_s) > before_s
    assert there.heard_s > before_s[0]
    assert here.moved_s > before_s[1]


def two_pieces_and_no_more(plain):
    pieces = iter([plain, plain])

    def receive():
        for one in pieces:
            return one()
        raise EOFError

    return receive


def test_who_puts_something_down_does_not_wait_for_a_line_that_is_full():
    here, there = a_line()
    for number in range(20):
        here.put((number, bytes(_PIECE)))  # nobody takes anything yet
    assert [there.take()[0] for _ in range(20)] == list(range(20))


def an_agent(monkeypatch, unheard_s: float, **methods) -> tuple[agent_process.AgentProcess, Line]:
    """An agent that can do these, and the notebook's end of its line, which says nothing by itself."""
    monkeypatch.setattr(agent_process, "UNHEARD_S", unheard_s)
    (incoming, asks), (answers, outgoing) = Pipe(duplex=False), Pipe(duplex=False)
    server = agent_process.AgentProcess(incoming, outgoing)
    server.agent = SimpleNamespace(events=lambda wait_s: threading.Event().wait(wait_s) or [], **methods)
    line = Line(answers, asks)
    threading.Thread(target=line.speak, daemon=True).start()
    return server, line


def test_an_agent_that_is_busy_says_what_its_clocks_show(monkeypatch):
    go_on, closed = threading.Event(), threading.Event()
    server, line = an_agent(monkeypatch, 1e6, slow=go_on.wait, clocks=lambda: "now", close=closed.set)
    threading.Thread(target=server.serve, daemon=True).start()
    line.put((1, "slow", ()))
    line.put((2, "clocks", ()))
    assert line.take() == (2, "done", "now")
    go_on.set()
    assert line.take() == (1, "done", True)
    line.end()
    wait_until(closed.is_set, "it ends with its line", 60)


def test_an_agent_whose_answers_nobody_takes_ends_when_it_hears_nothing(monkeypatch):
    closed = threading.Event()
    server, line = an_agent(monkeypatch, 0.2, much=lambda: bytes(4 * _PIECE), close=closed.set)
    line.put((1, "much", ()))
    line.put((2, "much", ()))
    server.serve()  # comes back
    assert closed.is_set()


def test_a_signal_ends_an_agent(monkeypatch):
    closed = threading.Event()
    server, _line = an_agent(monkeypatch, 1e6, close=closed.set)
    server.leave()
    threading.Thread(target=server.serve, daemon=True).start()
    wait_until(closed.is_set, "it comes to its end", 60)


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(node, "_LIFE_S", 0.05)
    monkeypatch.setattr(node, "_GOODBYE_S", 0.5)


def test_a_node_that_is_heard_may_take_longer(impatient):
    busy = RemoteNode(0, "a", [sys.executable, "-c", AN_AGENT])
    assert busy.ask("clocks", timeout_s=60)
    assert busy.ask("slow", timeout_s=2.0) == "done"
    assert not busy.is_lost
    with pytest.raises(RuntimeError, match=r"(?s)node 0 \(a\) could not do what was asked: .*no_such_method"):
        busy.ask("no_such_method", timeout_s=60)
    busy.close()
    assert all_ended([busy._process.pid])


def test_a_node_has_time_until_its_first_answer(impatient, monkeypatch):
    monkeypatch.setattr(node, "_ANSWER_S", 1.0)
    slow = RemoteNode(0, "a", [sys.executable, "-c", f"import time; time.sleep(2)\n{AN_AGENT}"])
    assert slow.ask("clocks", timeout_s=60), "nobody has asked it meanwhile whether it lives"
    slow.close()


def test_a_node_that_answers_for_ever_and_does_not_do_it_is_lost(impatient):
    busy = RemoteNode(0, "a", [sys.executable, "-c", AN_AGENT])
    assert busy.ask("clocks", timeout_s=60)
    with pytest.raises(NodeLost, match=r"node 0 \(a\) did not answer within"):
        busy._answer(busy._send("slow", ()), 0.5, longest_s=0.2)
    assert busy.is_lost


def test_an_agent_that_takes_nothing_in_keeps_nobody_waiting_and_is_lost(impatient, monkeypatch):
    monkeypatch.setattr(node, "_ANSWER_S", 0.5)
    stuck = RemoteNode(1, "b", [sys.executable, "-c", READS_NOTHING])
    stuck._process.send_signal(signal.SIGSTOP)  # no plain request to end reaches it
    stuck.post("send", bytes(10 * _PIECE))
    assert stuck.threads("team", (0,)) == {}
    stuck.begin_look("team")()  # is not an error: the next request says it
    wait_until(lambda: stuck.is_lost, "it does not answer when it is asked whether it lives")
    with pytest.raises(NodeLost, match=r"node 1 \(b\) does not answer: no answer within"):
        stuck.post("send", b"")
    assert all_ended([stuck._process.pid])


def test_threads_of_several_nodes_are_told_apart_and_a_late_answer_changes_nothing(monkeypatch, request):
    one = RemoteNode(3, "c", [sys.executable, "-c", READS_NOTHING])
    request.addfinalizer(one.close)
    answer = SimpleNamespace(value={(7, 8): (1.0, 2.0)})
    sent = []
    monkeypatch.setattr(
        one, "_send", lambda method, args: sent.append(args) or SimpleNamespace(result=lambda s: answer)
    )
    seen = one.threads("team", [0, 1])
    assert sent == [("team", (0, 1))]
    assert seen == {((3 << 32) + 7, 8): (1.0, 2.0)}

    def late(_: float):
        raise TimeoutError

    monkeypatch.setattr(one, "_send", lambda method, args: SimpleNamespace(result=late))
    assert one.threads("team", [0, 1]) == seen
    assert one.threads("other", [0, 1]) == {}
    monkeypatch.setattr(one, "ask", lambda *_: None)
    one.end("other")
    assert one.threads("team", [0, 1]) == seen
    one.end("team")
    assert one.threads("team", [0, 1]) == {}, "a team that has ended leaves nothing"


def test_an_agent_that_reads_nothing_is_asked_to_end(monkeypatch):
    monkeypatch.setattr(node, "_GOODBYE_S", 1e6)
    one = RemoteNode(3, "c", [sys.executable, "-c", READS_NOTHING])
    one.close()
    assert all_ended([one._process.pid])


def test_nodes_that_are_missing_are_asked_again_after_a_while(monkeypatch, tmp_path):
    path = tmp_path / "up.json"
    record = NodesRecord(("a", "b"), "127.0.0.1", starter="here")
    record.write(path)
    monkeypatch.setenv("COURSE_NODES", str(path))
    alone = SimpleNamespace(nodes=(SimpleNamespace(is_lost=False),))
    both = SimpleNamespace(nodes=alone.nodes * 2)
    answers = iter([alone, both])
    monkeypatch.setattr(found, "meet", lambda record, after=None: next(answers))
    monkeypatch.setattr(found, "_met", {})
    assert found.nodes_here() is alone
    assert found.nodes_here() is alone, "not at each cluster: one that is gone costs seconds"
    monkeypatch.setattr(found, "_AGAIN_S", 0.0)
    assert found.nodes_here() is both
    assert found.nodes_here() is both


@pytest.mark.skipif(os.name != "posix", reason="modes of files")
def test_a_record_that_everybody_may_change_is_not_read(tmp_path):
    path = tmp_path / "up.json"
    before = os.umask(0)
    NodesRecord(("a",), "127.0.0.1").write(path)
    os.umask(before)
    assert NodesRecord.read(path) == NodesRecord(("a",), "127.0.0.1")
    path.chmod(0o646)
    with pytest.raises(ValueError, match=r"every user may change it, and it says what is run as you: `chmod o-w .*up"):
        NodesRecord.read(path)


def test_an_answer_is_told_as_it_was_pickled():
    here, there = a_line()
    with pytest.raises((pickle.PicklingError, AttributeError, TypeError)):
        here.put(lambda: None)
    here.put("after it")
    assert there.take() == "after it"


def by_itself(tmp_path, number: int, waits_for: str = "") -> RemoteNode:
    """Its agent ends by itself a while after its line has closed: then there is a file ``ended-NUMBER``."""
    waits = f"until [ -e {tmp_path}/{waits_for} ]; do sleep 0.05; done" if waits_for else "sleep 0.3"
    return RemoteNode(number, "a", ["sh", "-c", f"cat > /dev/null; {waits}; touch {tmp_path}/ended-{number}"])


def test_a_closed_node_lets_its_agent_end_by_itself(tmp_path, monkeypatch):
    """srun that is asked to end kills its agent at once, and folders of ranks would stay."""
    monkeypatch.setattr(node, "_FAREWELL_S", 60.0)
    one = by_itself(tmp_path, 0)
    one.close()
    assert (tmp_path / "ended-0").exists()
    assert one._process.wait(60) == 0


def test_nodes_are_closed_all_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(node, "_FAREWELL_S", 15.0)
    nodes = [by_itself(tmp_path, 0, waits_for="ended-1"), by_itself(tmp_path, 1)]
    found._close(nodes)
    assert (tmp_path / "ended-0").exists(), "the first ends only after the second"


def test_all_nodes_are_closed_with_the_process(tmp_path, monkeypatch):
    at_exit = []
    monkeypatch.setattr(found, "_begun", [])
    monkeypatch.setattr(found.atexit, "register", lambda *words: at_exit.append(words))
    nodes = [by_itself(tmp_path, number) for number in (0, 1)]
    for one in nodes:
        found._to_close(one)
    [(close, begun)] = at_exit
    assert begun == nodes
    close(begun)
    assert all(one.is_lost for one in nodes)
