"""The ports at which gloo's ranks meet: shut when they have met, and who is connected is no stranger."""

from __future__ import annotations

import contextlib
import json
import os
import socket

import pytest
import torch.distributed as dist

from course_lib.cluster import Cluster
from course_lib.cluster.ports import own_sockets, port_guard
from course_lib.cluster.ports.connections import connections_to, strangers, strangers_in_words
from course_lib.cluster.ports.own_sockets import can_shut_ports, shut_ports, socket_numbers, sockets_since

pytestmark = pytest.mark.skipif(not can_shut_ports(), reason="this system has no filters for sockets")
SHORT_S = 0.2  # for a connection that nobody answers


def is_answered(end: tuple[str, int]) -> bool:
    try:
        with socket.create_connection(end, SHORT_S):
            return True
    except TimeoutError:
        return False


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_a_port_that_is_shut_answers_nobody_and_keeps_who_is_connected(family, address):
    before = socket_numbers()
    try:
        server = socket.create_server((address, 0), family=family)
    except OSError:
        pytest.skip("no such network here")
    end = server.getsockname()[:2]
    with server, socket.create_connection(end) as near, server.accept()[0] as far:
        sockets = sockets_since(before)
        assert list(sockets.listens.values()) == [end]
        assert sockets.begun_here == [(near.getsockname()[:2], end)]
        assert sockets.came_here == [(near.getsockname()[:2], end)]
        assert connections_to([end]) == {(near.getsockname()[:2], end): True}
        shut_ports(sockets)
        assert not is_answered(end)
        near.sendall(b"still here")
        assert far.recv(100) == b"still here"


def test_a_system_without_filters_is_left_as_it_is(monkeypatch):
    monkeypatch.setattr(own_sockets, "_ATTACH_FILTER", 9999)
    before = socket_numbers()
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert not can_shut_ports()
        shut_ports(sockets_since(before))
        assert is_answered(server.getsockname())


PORT, ELSEWHERE = ("10.0.0.1", 100), ("10.0.0.2", 100)
A, B, STRANGE, TRANSLATED = ("10.0.0.2", 5), ("10.0.0.2", 6), ("10.0.0.9", 7), ("192.0.2.1", 8)


@pytest.mark.parametrize(
    ("come", "asked_for", "found"),
    [
        ({A: True, B: True}, [(A, PORT), (B, PORT)], []),
        ({A: True, STRANGE: True}, [(A, PORT)], [STRANGE]),
        ({STRANGE: True}, [(A, ELSEWHERE)], [STRANGE]),
        ({STRANGE: True, A: False}, [(A, PORT)], [STRANGE]),  # the rank is late
        ({STRANGE: False, A: True}, [(A, PORT)], []),  # nobody is in a rank's place by half a connection
        ({TRANSLATED: True}, [(A, PORT)], []),  # an address is translated on the way
        ({TRANSLATED: True, STRANGE: True}, [(A, PORT)], [TRANSLATED, STRANGE]),
    ],
)  # fmt: skip
def test_who_is_a_stranger(come, asked_for, found):
    told = strangers({(end, PORT): whole for end, whole in come.items()}, asked_for, [PORT])
    assert told == [(end, PORT) for end in found]


def test_a_group_that_is_refused_says_who_is_there_and_what_to_do():
    said = strangers_in_words([(STRANGE, PORT)], 2)
    assert said.startswith("a stranger has connected to rank 2 of this group while its ranks met: 10.0.0.9, port 7. ")
    assert "`ss -tnp` there" in said
    assert strangers_in_words([(STRANGE, PORT), (A, PORT)], 2).startswith("strangers have connected to rank 2")


@pytest.mark.parametrize("its_rank_says", ["[]", "null", "its end"])
def test_a_rank_that_cannot_say_holds_nobody_up(its_rank_says):
    """This process is rank 0 of two. What has connected is rank 1, or a stranger, or nobody can say."""
    before, store = socket_numbers(), dist.HashStore()
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as far:
        ends = json.dumps([[far.getsockname(), server.getsockname()]])
        store.set("connections/1", its_rank_says.replace("its end", ends))
        with server.accept()[0], contextlib.ExitStack() as stack:
            if its_rank_says == "[]":
                port = far.getsockname()[1]
                stack.enter_context(pytest.raises(port_guard.StrangerConnected, match=rf"127\.0\.0\.1, port {port}\."))
            port_guard._tell_whom_we_asked(store, 0, sockets_since(before))
            port_guard._look_at_who_came(store, 0, 2, before)
    assert json.loads(store.get("connections/0")) is not None


def ends_and_sums(me):
    """Two groups more, a message, and the ends at which this rank listens."""
    import torch
    import torch.distributed as dist

    groups = [dist.group.WORLD, dist.new_group(), dist.new_group([0, 1])]
    sums = []
    for group in groups:
        if group != dist.GroupMember.NON_GROUP_MEMBER:
            total = torch.ones(1)
            dist.all_reduce(total, group=group)
            sums.append(total.item())
    if me.rank:
        dist.send(torch.full((1,), float(me.rank)), 0)
    else:
        sums += [dist.recv(torch.empty(1), source) for source in range(1, me.world_size)]
    return list(sockets_since(frozenset()).listens.values()), sums


def test_ranks_of_one_machine_answer_nobody_once_they_have_met():
    with Cluster(3, timeout_s=60) as cluster:
        run = cluster.run(ends_and_sums)
        assert [run[rank][1] for rank in range(3)] == [[3.0, 3.0, 2.0, 1, 2], [3.0, 3.0, 2.0], [3.0, 3.0]]
        ends = [end for rank in range(3) for end in run[rank][0]]
        assert len(ends) == 3 + 3 + 2
        assert not any(is_answered(end) for end in ends)


def test_a_group_that_connects_when_it_is_used_keeps_its_port(monkeypatch):
    monkeypatch.setenv("TORCH_GLOO_LAZY_INIT", "1")
    with Cluster(2, timeout_s=60) as cluster:
        assert cluster.run(lambda me: os.environ["TORCH_GLOO_LAZY_INIT"])[1] == "1"
        run = cluster.run(ends_and_sums)
        assert run[1][1] == [2.0, 2.0, 2.0]
