"""Reads that take a given time: which item takes how long, in this process and in a worker, and what cannot work."""

from __future__ import annotations

import pytest

from course_lib.data import PacedReads, loader
from course_lib.data import paced as paced_module


def test_each_item_is_its_number_and_sleeps_its_time_over_and_over(monkeypatch: pytest.MonkeyPatch) -> None:
    slept = []
    monkeypatch.setattr(paced_module.time, "sleep", slept.append)
    data = PacedReads(5, [0.25, 0.5, 4])
    assert len(data) == 5
    assert [data[index] for index in range(5)] == [0, 1, 2, 3, 4]
    assert data[-1] == 4
    assert slept == [0.25, 0.5, 4, 0.25, 0.5, 0.5]


def test_a_worker_reads_the_same_items() -> None:
    batches = loader(PacedReads(5, [0.0]), 2, shuffle=False, workers=1)
    assert [batch.tolist() for batch in batches] == [[0, 1], [2, 3], [4]]


@pytest.mark.parametrize(
    ("num_items", "read_times_s", "words"),
    [
        (0, [0.1], "num_items=0 does not work: num_items is a whole number of at least 1"),
        (2, [], r"read_times_s is empty.*such as \[0\.001\]"),
        (2, [0.1, -1.0], r"read_times_s\[1\]=-1\.0 does not work.*nearest that works is 0\."),
        (2, [float("nan")], r"read_times_s\[0\]=nan does not work"),
        (2, [float("inf")], r"read_times_s\[0\]=inf does not work.*nearest that works is 3600\."),
        (2, 0.1, "read_times_s"),
        ("2", [0.1], "num_items"),
    ],
)
def test_what_cannot_work_is_told(num_items, read_times_s, words) -> None:
    with pytest.raises(ValueError, match=words):
        PacedReads(num_items, read_times_s)


@pytest.mark.parametrize("index", [3, -4])
def test_items_that_are_not_there_are_told(index: int) -> None:
    with pytest.raises(IndexError, match=rf"no item {index}: they are numbered 0 to 2\."):
        PacedReads(3, [0.0])[index]
