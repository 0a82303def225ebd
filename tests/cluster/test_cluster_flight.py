"""The flight recorder read while somebody else walks through all objects of the process, as the capstone's census."""

from __future__ import annotations

import gc

from course_lib.cluster.failures import flight_recorder as flight


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
    entry = {"time_created_ns": 5, "input_sizes": sizes, "input_dtypes": names, "profiling_name": "gloo:send"}
    monkeypatch.setattr(flight, "_dump", lambda *, nccl: [entry])
    (found,) = flight.entries_since(0, lambda group: 0)
    assert found.shapes == ((4, 2),) * 3
    assert found.dtypes == ("float32", "int32", "other")
