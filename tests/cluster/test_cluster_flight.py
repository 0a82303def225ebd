"""The flight recorder read while somebody else walks through all objects of the process, as the capstone's census."""

from __future__ import annotations

import gc
import json
import sys
from types import CellType, FrameType

import pytest

from course_lib.cluster import RankFailed
from course_lib.cluster.failures import flight_recorder


def test_whoever_holds_all_objects_meanwhile_does_no_harm(monkeypatch):
    """A tuple that grows while another thread refers to it is a ``SystemError``, so none may grow."""
    held = []

    class Sizes(list):
        def __iter__(self):
            for size in super().__iter__():
                held.extend(one for one in gc.get_objects() if type(one) is tuple)
                yield size

    sizes = Sizes([4, 2] for _ in range(3))
    names = Sizes(["Float", "Int", "Other"])
    entry = {
        "time_created_ns": 5,
        "input_sizes": sizes,
        "input_dtypes": names,
        "profiling_name": "gloo:send",
        "is_p2p": True,
    }
    monkeypatch.setattr(flight_recorder, "_dump", lambda *, nccl: [entry])
    (found,) = flight_recorder.entries_since(0, lambda group: 0)
    assert found.shapes == ((4, 2),) * 3
    assert found.dtypes == ("float32", "int32", "other")


def test_no_object_that_the_collector_knows_holds_the_recorders_text(monkeypatch):
    """The capstone's census in the main thread found it there, and called it hidden memory."""
    text = json.dumps({"entries": [recorded(number, number, at_ns=5) for number in range(3)]})
    holders = []  # three entries are enough: each look asks all objects of this process

    def look(frame, event, function):
        holders.extend(type(one) for one in gc.get_referrers(text) if not isinstance(one, FrameType | CellType))

    monkeypatch.setattr(flight_recorder, "dump_of", lambda name, *, nccl: lambda collectives, stacks: text)
    sys.setprofile(look)  # at each call and each return: where another thread may take over
    try:
        found = flight_recorder.entries_since(0, lambda group: 0)
    finally:
        sys.setprofile(None)
    assert len(found) == 2  # without the one of number 0
    assert not [kind for kind in holders if kind is not tuple]  # closures of this test


def recorded(record_id, number, *, at_ns):
    return {
        "record_id": record_id,
        "collective_seq_id": number,
        "time_created_ns": at_ns,
        "process_group": ["0", "default_pg"],
        "profiling_name": "gloo:all_reduce",
    }


def test_an_entry_of_before_is_none_of_this_call_whatever_its_clock_says(monkeypatch):
    """The recorder's clock runs ahead: entries from before the call bear later times than its beginning."""
    monkeypatch.setattr(flight_recorder, "_first_id", {False: 0, True: 0})
    kept = [recorded(0, 1, at_ns=900), recorded(1, 2, at_ns=901)]
    monkeypatch.setattr(flight_recorder, "_dump", lambda *, nccl: [] if nccl else kept)
    assert [one.number for one in flight_recorder.entries_since(100, lambda group: 0)] == [1, 2]
    assert flight_recorder.entries_since(100, lambda group: 2) == [], (
        "the group has had two collectives before this call"
    )
    flight_recorder.groups_begin_anew()
    assert flight_recorder.entries_since(100, lambda group: 0) == [], "of a group that has gone"
    kept.append(recorded(2, 1, at_ns=902))
    assert [one.number for one in flight_recorder.entries_since(100, lambda group: 0)] == [1]


def test_ranks_that_have_failed_together_tell_of_the_next_call_alone(cluster2):
    """With the clock's evidence taken away: ranks stay when a peer has left the group, and begin a new one."""

    def told(me, is_first):
        import torch
        import torch.distributed as dist

        from course_lib.cluster.failures.flight_recorder import entries_since

        if is_first:
            if me.rank == 1:
                raise ValueError("rank 1 fails")
            dist.all_reduce(torch.ones(3))
        return [one.name for one in entries_since(0, lambda group: 0)]

    with pytest.raises(RankFailed):
        cluster2.call(told, (True,), show=False)
    assert list(cluster2.call(told, (False,), show=False)) == [[], []]
