"""Agents that meet by PyTorch's own handlers, and what the course says will become of them."""

from __future__ import annotations

import re

import pytest

from course_lib.learn.sick.meetings import UNMET, fates, meet, store_of


def agents(*rows, endpoint="10.0.0.0"):
    return [
        {"node": f"n{n}", "address": f"10.0.0.{n}", "endpoint": endpoint, "rdzv_id": run, "nnodes": nnodes}
        for n, (run, nnodes) in enumerate(rows)
    ]


@pytest.fixture(scope="module")
def several():
    """One meeting of several jobs, and what was said of it before."""
    jobs = agents(("a", "2"), ("a", "2"), ("a", "2"), ("b", "1:3"), ("b", "1:3"), ("c", "3"), ("c", "3"), ("d", "1"))
    return meet(jobs), fates(jobs)


SAID = {"complete": "rank ", "too few": "RendezvousTimeoutError", "too many": "waits for a place"}


def test_pytorch_does_what_was_said_before(several):
    meeting, before = several
    assert set(meeting.said) == set(before)
    for node, word in before.items():
        assert meeting.said[node].startswith(SAID[word]), (node, word, meeting.said[node])
    assert set(before.values()) == set(SAID)


def test_ranks_are_those_of_the_job(several):
    said = several[0].said
    assert sorted(said[node] for node in ("n0", "n1")) == ["rank 0 of 2", "rank 1 of 2"]
    assert said["n7"] == "rank 0 of 1"


def test_the_store_has_a_list_for_each_job(several):
    lists = several[0].lists
    assert set(lists) == {("10.0.0.0:29400", job) for job in "abcd"}
    assert lists["10.0.0.0:29400", "c"] == {"participants": ["n5", "n6"], "complete": False, "waiting": []}
    assert lists["10.0.0.0:29400", "a"]["waiting"] == ["n2"]
    assert "n5: RendezvousTimeoutError" in str(several[0])


def test_the_clinic_depends_on_who_comes_last():
    assert set(meet(UNMET, join_timeout_s=1).said.values()) == {"RendezvousTimeoutError"}
    assert sorted(meet(UNMET[::-1], join_timeout_s=1).said.values()) == ["rank 0 of 2", "rank 1 of 2"]
    assert set(fates(UNMET).values()) == {"too few"}


def test_where_an_agent_goes():
    agent = agents(("a", "2"))[0]
    places = {
        endpoint: store_of({**agent, "endpoint": endpoint})
        for endpoint in ("10.0.0.9:1", "10.0.0.9", "localhost:1", "127.0.0.1")
    }
    assert list(places.values()) == [
        ("10.0.0.9", "1"),
        ("10.0.0.9", "29400"),
        ("10.0.0.0", "1"),
        ("10.0.0.0", "29400"),
    ]


BAD = [
    ([{"node": "n0"}], "has no address, endpoint, rdzv_id, nnodes"),
    (agents(("a", "two")), "nnodes of n0 is 'two'; write \"2\""),
    (agents(("a", "3:2")), "nnodes of n0 is '3:2'"),
    (agents(("a", "0:2")), "nnodes of n0 is '0:2'"),
    (agents(("a", "1:2:3")), "nnodes of n0 is '1:2:3'"),
    (agents(("a", "1")) * 2, "two nodes are called 'n0'"),
    (agents(("a", "1"), endpoint="10.0.0.5"), "no agent opens the store that n0 would go to"),
]


@pytest.mark.parametrize(("given", "said"), BAD)
def test_settings_that_cannot_be_are_told(given, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        meet(given)


def test_patience_is_whole_seconds():
    with pytest.raises(ValueError, match="join_timeout_s"):
        meet(agents(("a", "1")), join_timeout_s=0)


def test_nobody_comes():
    assert meet([]).said == {}
