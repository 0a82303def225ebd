"""Reads: handed on unchanged, each with its worker, its times and its share of a core, in whichever process it was."""

from __future__ import annotations

import os
import time

import pytest
import torch
from torch.utils.data import Dataset

from course_lib.data import digits, generated_images, loader
from course_lib.meter import TimedReads, Timeline


class Clock:
    """Stands in for the system's clocks. Work takes what a test says; each process has CPU seconds of its own."""

    START_S = 0.5  # of CPU, that the start of a process has taken

    def __init__(self) -> None:
        self.seconds, self.process_id, self.cpu = 100.0, os.getpid(), 70.0

    def now_s(self) -> float:
        return self.seconds

    def cpu_s(self) -> float:
        if self.process_id != os.getpid():  # a worker, in its own copy of this
            self.process_id, self.cpu = os.getpid(), self.START_S
        return self.cpu

    def work(self, cpu_s: float) -> None:
        """Use a core for so long."""
        self.cpu = self.cpu_s() + cpu_s
        self.seconds += cpu_s

    def wait(self, time_s: float) -> None:
        self.seconds += time_s

    def reads(self, dataset: Dataset) -> TimedReads:
        return TimedReads(dataset, clock=self.now_s, cpu_clock=self.cpu_s)


class Busy(Dataset):
    """Item i is i and the process that read it; each keeps a core busy for ``busy_s`` on ``clock``."""

    def __init__(self, num_items: int = 8, busy_s: float = 0.0, clock: Clock | None = None) -> None:
        self.num_items, self.busy_s, self.clock = num_items, busy_s, clock or Clock()

    def __len__(self) -> int:
        return self.num_items

    def __getitem__(self, index: int) -> tuple[int, int]:
        self.clock.work(self.busy_s)
        return index, os.getpid()


class InBatches(Busy):
    """Gives a whole batch at once, as some data sets of torch do."""

    def __getitems__(self, indices: list[int]) -> list[tuple[int, int]]:
        return [(100 + index, os.getpid()) for index in indices]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_gives_the_same_batches_as_without(workers: int) -> None:
    data = generated_images(10, 8)
    plain, timed = loader(data, 4), loader(TimedReads(data), 4, workers=workers)
    for (x, y), (x_timed, y_timed) in zip(plain, timed, strict=True):
        assert torch.equal(x, x_timed)
        assert torch.equal(y, y_timed)


def test_items_batches_and_data_sets_of_torch_pass_through() -> None:
    reads = TimedReads(Busy(3))
    assert (len(reads), reads[2][0], reads[-1][0]) == (3, 2, -1)
    assert [item[0] for item in TimedReads(InBatches()).__getitems__([3, 1])] == [103, 101]
    image, label = TimedReads(digits().train)[5]
    assert torch.equal(image, digits().train[5][0])
    assert label == digits().train[5][1]


def test_each_batch_is_one_read_of_its_worker_within_the_epoch() -> None:
    reads, timeline = TimedReads(Busy(12)), Timeline()  # on real clocks: each began before the next
    assert reads.spans() == ()
    workers = [set(batch[1].tolist()) for batch in timeline.iterate(loader(reads, 3, workers=2))]
    spans = reads.spans()
    assert [span.rank for span in sorted(spans, key=lambda span: (span.rank, span.start_s))] == [1, 1, 2, 2]
    assert {(span.name, span.kind) for span in spans} == {("read", "data")}
    assert workers[0] == workers[2] != workers[1] == workers[3]
    first, last = timeline.spans[0], timeline.spans[-1]
    assert all(first.start_s <= span.start_s <= span.end_s <= last.end_s for span in spans)
    assert [span.start_s for span in spans] == sorted(span.start_s for span in spans)


def test_without_workers_the_reads_are_of_this_process_and_lie_in_its_waits() -> None:
    reads, timeline = TimedReads(Busy(4)), Timeline()
    for _ in timeline.iterate(loader(reads, 2)):
        pass
    assert [span.rank for span in reads.spans()] == [0, 0]
    for read, wait in zip(reads.spans(), timeline.spans, strict=True):
        assert wait.start_s <= read.start_s <= read.end_s <= wait.end_s


@pytest.mark.parametrize("workers", [0, 1])
def test_a_read_lasts_as_long_as_its_items_take(workers: int) -> None:
    clock = Clock()
    reads = clock.reads(Busy(6, 0.25, clock))
    for _ in loader(reads, 3, workers=workers):
        clock.wait(5.0)  # beside the reads of a worker, whose clock is a copy
    taken = [(span.rank, span.start_s, span.time_s) for span in reads.spans()]
    between_s = 0.0 if workers else 5.0
    assert taken == [(workers, 100.0, 0.75), (workers, 100.75 + between_s, 0.75)]


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_core_seconds_are_those_of_reading_in_whichever_process(workers: int) -> None:
    clock = Clock()
    reads = clock.reads(Busy(10, 0.02, clock))
    for _ in loader(reads, 2, workers=workers):
        clock.work(0.1)  # what this process computes is not counted
    assert reads.cpu_s == pytest.approx(10 * 0.02 + workers * Clock.START_S)


def test_of_a_worker_all_that_it_did_up_to_its_last_read_is_counted() -> None:
    clock = Clock()

    def put_together(items: list[tuple[int, int]]) -> int:
        clock.work(0.125)
        return len(items)

    reads = clock.reads(Busy(6, clock=clock))
    # Two batches before the last read; none here.
    for workers, counted_s in ((1, Clock.START_S + 2 * 0.125), (0, 0.0)):
        reads.forget()
        batches = loader(reads, 2, workers=workers)
        batches.collate_fn = put_together
        assert list(batches) == [2, 2, 2]
        assert reads.cpu_s == pytest.approx(counted_s)


def test_waiting_is_no_work() -> None:
    class Slow(Busy):
        def __getitem__(self, index: int) -> tuple[int, int]:
            self.clock.wait(0.5)
            return index, os.getpid()

    clock = Clock()
    reads = clock.reads(Slow(2, clock=clock))
    reads.__getitems__([0, 1])
    assert reads.spans()[0].time_s == 1.0
    assert reads.cpu_s == 0.0


def test_by_themselves_reads_are_on_the_clock_of_a_timeline_and_on_cpu_seconds() -> None:
    reads = TimedReads(Busy(1))
    assert (reads._clock, reads._cpu_clock) == (Timeline()._clock, time.process_time)


def test_a_kept_worker_is_not_charged_twice() -> None:
    clock = Clock()
    reads = clock.reads(Busy(4, 0.25, clock))
    batches = loader(reads, 2, workers=1, shuffle=False, keep_workers=True)
    taken_s = []
    for _ in range(3):
        list(batches)
        taken_s.append(reads.cpu_s)
    assert taken_s == [Clock.START_S + 1.0, 1.0, 1.0]  # 2.5 and 3.5 where it was counted from its start
    assert len(reads.spans()) <= 4  # the last read that began with each item
    reads.forget()
    assert (reads.spans(), reads.cpu_s) == ((), 0.0)


def test_a_worker_forked_from_a_process_that_has_read_begins_at_nothing() -> None:
    clock = Clock()
    reads = clock.reads(Busy(4, 0.25, clock))
    reads.__getitems__([0, 1, 2, 3])
    assert reads.cpu_s == 1.0
    reads.forget()
    list(loader(reads, 2, workers=1))
    assert reads.cpu_s == Clock.START_S + 1.0  # below nothing where it began at this process's 71


def test_a_read_that_fails_is_none_and_the_error_is_the_data_sets_own() -> None:
    class Broken(Busy):
        def __getitem__(self, index: int) -> tuple[int, int]:
            raise KeyError(f"no item {index}")

    reads = TimedReads(Broken(3))
    with pytest.raises(KeyError, match="no item 1"):
        reads[1]
    assert reads.spans() == ()
    assert reads.__getitems__([]) == []


def test_what_is_no_data_set_is_told() -> None:
    with pytest.raises(ValueError, match=r"data set is empty.*smallest that works has 1 item"):
        TimedReads(Busy(0))
    with pytest.raises(TypeError, match="dataset=7 does not work: it has a length"):
        TimedReads(7)
