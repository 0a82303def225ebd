"""How ranks of several nodes find each other: by their agents and the notebook, and not by a port that is open."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from datetime import timedelta
from pathlib import Path

import psutil
import pytest
import torch
import torch.distributed as dist
from local_nodes import two_local_nodes
from waiting import wait_until

from course_lib.cluster import Cluster, RankInterrupted, RankTimeout
from course_lib.cluster.base import line_store
from course_lib.cluster.base.line_store import LineStore
from course_lib.cluster.base.process_group import MEETING_SOCKET
from course_lib.cluster.nodes.meeting.relay import MeetingRelay
from course_lib.cluster.nodes.meeting.table import MeetingTable

pytestmark = [pytest.mark.xdist_group("nodes"), pytest.mark.limit_s(400.0)]


@pytest.fixture
def stores(tmp_path):
    """Makes the store of a rank; one table and, for each, a relay on a node of its own."""
    table, relays = MeetingTable(), []

    def carry(relay):
        with contextlib.suppress(EOFError, OSError):
            while True:
                number, what, details = relay.questions.recv()
                table.ask(what, details, lambda value, number=number: relay.answer(number, value))

    def new_store():
        folder = tmp_path / str(len(relays))
        folder.mkdir()
        relays.append(MeetingRelay(folder))
        threading.Thread(target=carry, args=(relays[-1],), daemon=True).start()
        return LineStore(folder / MEETING_SOCKET)

    yield new_store
    for relay in relays:
        relay.close()


def deeds(store):
    """What PyTorch's stores answer to all that may be asked, in turn."""
    store.set("a", "1")
    yield store.get("a")
    store.set("a", b"\x00\xff")
    yield store.get("a")
    yield [store.add("n", by) for by in (5, -2, 0)]
    yield store.get("n")
    yield store.multi_get(["n", "a"])
    yield [store.check(keys) for keys in (["a"], ["a", "n"], ["a", "no"])]
    yield [store.compare_set("c", *parts) for parts in (("", "x"), ("y", "z"), ("x", "w"))]
    yield store.compare_set("absent", "something", "else"), store.check(["absent"])
    yield store.num_keys()
    yield [store.delete_key(key) for key in ("a", "a")]
    yield store.num_keys()
    store.wait(["n", "c"])
    store.wait(["n"], timedelta(seconds=100))


def test_it_answers_as_pytorchs_own(stores):
    plain, ours, prefixed = dist.HashStore(), stores(), dist.PrefixStore("p", keep := stores())
    expected = list(deeds(plain))
    assert list(deeds(ours)) == expected
    ours.delete_key("n")
    ours.delete_key("c")
    assert list(deeds(prefixed)) == expected, "and where PyTorch's C++ asks"
    assert keep.check(["p/n"])
    assert ours.get("p/c") == b"w", "of another node"


def test_who_asks_for_what_is_not_there_waits_for_it_and_holds_nobody_up(stores):
    waits, sets = stores(), stores()
    got = []
    threads = [
        threading.Thread(target=lambda: got.append(waits.get("late"))),
        threading.Thread(target=lambda: got.append(waits.wait(["late", "later"]))),
    ]
    for thread in threads:
        thread.start()
    assert waits.add("other", 1) == 1, "from another thread of this rank"
    sets.set("late", "now")
    threads[0].join()
    assert got == [b"now"]
    sets.set("later", "")
    threads[1].join()
    assert got == [b"now", None]


def test_what_many_threads_say_at_once_stays_apart(stores):
    """A relay sends long questions in pieces: those of two threads must not mix."""
    store = stores()

    def say(number: int) -> None:
        for turn in range(10):
            store.set(f"{number} {turn}", bytes([number]) * 300_000)

    threads = [threading.Thread(target=say, args=(number,), daemon=True) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert all(store.get(f"{number} {turn}") == bytes([number]) * 300_000 for number in range(8) for turn in range(10))


def test_what_does_not_come_is_told_and_the_next_answer_is_the_right_one(stores, monkeypatch):
    store = stores()
    with pytest.raises(dist.DistStoreError, match="no wait of never within 0 s"):
        store.wait(["never"], timedelta(milliseconds=50))
    store.set("never", "after all")
    assert store.add("n", 7) == 7
    monkeypatch.setattr(line_store, "_TIMEOUT", timedelta(milliseconds=50))
    with pytest.raises(dist.DistStoreError, match="no get of nothing"):
        store.get("nothing")
    monkeypatch.setattr(line_store, "_TIMEOUT", timedelta(seconds=60))
    assert store.get("never") == b"after all"


def test_what_cannot_be_done_is_told_to_who_asked(stores):
    store = stores()
    store.set("word", "x")
    with pytest.raises(RuntimeError, match=r"add of 'word': invalid literal for int"):
        store.add("word", 1)
    assert store.get("word") == b"x"


def test_an_answer_for_who_has_gone_is_no_error(stores):
    store = stores()
    with pytest.raises(dist.DistStoreError):
        store.wait(["x"], timedelta(milliseconds=20))
    store.set("x", "1")  # answers the question that was given up
    assert store.get("x") == b"1"


def test_a_relay_closes_while_somebody_says_more_than_anybody_reads(tmp_path):
    relay = MeetingRelay(tmp_path)
    store = LineStore(tmp_path / MEETING_SOCKET)

    def say_much():
        with contextlib.suppress(EOFError, OSError):
            store.set("much", bytes(1_000_000))

    thread = threading.Thread(target=say_much)
    thread.start()
    assert relay.questions.poll(100), "it has begun to say it"
    relay.close()
    thread.join()


def test_who_still_waits_when_the_team_ends_is_told(tmp_path):
    relay, got = MeetingRelay(tmp_path), []
    store = LineStore(tmp_path / MEETING_SOCKET)

    def wait_for_ever():
        with pytest.raises(RuntimeError, match="the team of this rank has ended"):
            store.get("never")
        got.append("told")

    thread = threading.Thread(target=wait_for_ever)
    thread.start()
    assert relay.questions.recv()[1:] == ("get", ("never",))
    relay.close()
    thread.join()
    assert got == ["told"]


@pytest.fixture(scope="module")
def on_two_nodes(tmp_path_factory):
    with two_local_nodes(tmp_path_factory.mktemp("nodes")), Cluster(3, timeout_s=120) as cluster:
        yield cluster


def sockets_of(me):
    """This rank's store: who may reach its socket."""
    store = next(Path(psutil.Process().environ().get("TMPDIR", "/tmp")).glob("ranks-*/meeting"), None)
    total = torch.ones(1)
    dist.all_reduce(total, group=dist.new_group())
    return total.item(), store is not None and stat.S_IMODE(os.stat(store.parent).st_mode)


def listening():
    return {one.laddr for one in psutil.Process().net_connections("inet") if one.status == psutil.CONN_LISTEN}


def test_the_notebook_opens_no_port_for_it(on_two_nodes):
    before = listening()
    with Cluster(3, timeout_s=120) as cluster:
        assert list(cluster.run(sockets_of)) == [(3.0, 0o700)] * 3
        assert listening() <= before


def alone_in_new_group(me):
    if me.rank < 2:
        dist.new_group([0, 1, 2])
    else:
        dist.barrier()


def test_ranks_that_wait_in_new_group_are_told_so(on_two_nodes):
    with pytest.raises(
        RankTimeout, match=r"(?s)rank 1 on node 0 .* waits in new_group, .*Rank 2 never called new_group"
    ):
        on_two_nodes.run(alone_in_new_group)
    assert next(iter(on_two_nodes.run(sockets_of)))[0] == 3.0, "the next call works"


def test_an_interrupt_in_new_group_ends_the_call_and_the_next_one_works(on_two_nodes, tmp_path):
    begun = tmp_path / "begun"

    def wait_there(me):
        if me.rank == 2:
            begun.touch()
            threading.Event().wait()
        dist.new_group([0, 1, 2])

    def interrupt():
        wait_until(begun.exists, "a rank begins")
        os.kill(os.getpid(), 2)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(RankInterrupted):
        on_two_nodes.run(wait_there)
    assert next(iter(on_two_nodes.run(sockets_of)))[0] == 3.0
