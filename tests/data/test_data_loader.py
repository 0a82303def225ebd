"""Batches: their order, their sizes, workers, and what is said of what cannot work."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import subprocess
import sys
import textwrap
import time
import warnings

import pytest
import torch
from torch.utils.data import Dataset, Sampler, TensorDataset

from course_lib.data import digits, generated_images, loader
from course_lib.data import loader as loader_function


class Numbers(Dataset):
    """Item i is i, with the process that made it and a random number drawn there."""

    def __init__(self, num_examples: int) -> None:
        self.num_examples = num_examples

    def __len__(self) -> int:
        return self.num_examples

    def __getitem__(self, index: int) -> tuple[int, int, float]:
        return index, os.getpid(), torch.rand(()).item()


def order(batches) -> list[list[int]]:
    return [batch[0].tolist() for batch in batches]


def test_each_epoch_shows_every_example_once_in_another_order() -> None:
    batches = loader(Numbers(10), 4)
    first, second = order(batches), order(batches)
    assert [len(b) for b in first] == [4, 4, 2]
    assert sorted(itertools.chain(*first)) == list(range(10))
    assert sorted(itertools.chain(*second)) == list(range(10))
    assert first != second
    assert list(itertools.chain(*first)) != list(range(10))


def test_the_seed_alone_decides_the_order() -> None:
    one = loader(Numbers(40), 8)
    torch.manual_seed(5)
    two = loader(Numbers(40), 8)
    for _ in range(3):
        a = order(one)
        torch.rand(3)
        assert a == order(two)
    assert order(loader(Numbers(40), 8, seed=0)) != order(loader(Numbers(40), 8, seed=1))


@pytest.mark.parametrize("keep_workers", [False, True])
def test_workers_give_the_same_batches_as_none(keep_workers: bool) -> None:
    data = generated_images(30, 8)
    alone, helped = loader(data, 8), loader(data, 8, workers=2, keep_workers=keep_workers)
    for _ in range(3):  # epochs: each has another order, and it must be the same one
        pairs = list(zip(alone, helped, strict=True))
        assert len(pairs) == 4
        for (x, y), (x_helped, y_helped) in pairs:
            assert torch.equal(x, x_helped)
            assert torch.equal(y, y_helped)


def test_workers_are_other_processes_with_random_numbers_of_their_own_that_end() -> None:
    before = set(multiprocessing.active_children())
    index, process, random = (torch.cat(column) for column in zip(*loader(Numbers(8), 2, workers=2), strict=True))
    assert len(index) == 8
    assert len(set(process.tolist()) - {os.getpid()}) == 2
    assert len(set(random.tolist())) == 8
    assert set(multiprocessing.active_children()) == before


def test_kept_workers_stay_for_the_next_epoch_and_end_with_the_loader() -> None:
    before = set(multiprocessing.active_children())
    batches = loader(Numbers(8), 2, workers=1, keep_workers=True)
    processes = [{p for batch in batches for p in batch[1].tolist()} for _ in range(2)]
    assert processes[0] == processes[1]
    del batches
    assert set(multiprocessing.active_children()) == before


def test_without_shuffle_the_order_is_that_of_the_data_and_drop_last_leaves_out_the_rest() -> None:
    assert order(loader(Numbers(5), 2, shuffle=False)) == [[0, 1], [2, 3], [4]]
    assert order(loader(Numbers(5), 2, shuffle=False, drop_last=True)) == [[0, 1], [2, 3]]
    assert [len(b) for b in order(loader(Numbers(5), 2, drop_last=True))] == [2, 2]
    assert len(loader(Numbers(5), 5, drop_last=True)) == 1


def test_a_sampler_brings_its_own_order() -> None:
    assert order(loader(Numbers(5), 2, sampler=[4, 1, 3])) == [[4, 1], [3]]
    split = torch.utils.data.DistributedSampler(Numbers(6), num_replicas=2, rank=1, shuffle=False)
    assert order(loader(Numbers(6), 2, sampler=split)) == [[1, 3], [5]]


def test_batches_of_digits_hold_images_and_labels() -> None:
    x, y = next(iter(loader(digits().train, 16)))
    assert x.shape == (16, 1, 8, 8)
    assert y.shape == (16,)


def test_workers_start_after_the_parent_computed_on_several_threads() -> None:
    """In a process of its own, with a limit: a wrong start method hangs."""
    program = """
        import torch
        from course_lib.data import loader

        class InCell(torch.utils.data.Dataset):  # of __main__, as in a notebook: it cannot be imported
            def __len__(self): return 4
            def __getitem__(self, index): return torch.randn(256, 256).mm(torch.ones(256, 256)).sum()

        torch.set_num_threads(2)
        torch.randn(600, 600).mm(torch.randn(600, 600))
        print(len(list(loader(InCell(), 1, workers=2))))
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.stdout.strip() == "4", done.stderr


class Sleeper(Numbers):
    def __getitem__(self, index: int) -> tuple[int, int, float]:
        time.sleep(2)
        return super().__getitem__(index)


def test_a_worker_that_gives_nothing_ends_the_loop() -> None:
    before = set(multiprocessing.active_children())
    with pytest.raises(RuntimeError, match="timed out"):
        list(loader(Sleeper(2), 1, workers=1, timeout_s=0.2))
    assert set(multiprocessing.active_children()) == before


class Broken(Numbers):
    def __getitem__(self, index: int) -> tuple[int, int, float]:
        if index == 3:
            raise KeyError("no such item")
        return super().__getitem__(index)


@pytest.mark.parametrize("keep_workers", [False, True])
def test_when_a_worker_fails_all_workers_end_although_the_traceback_is_held(keep_workers: bool) -> None:
    before = set(multiprocessing.active_children())
    batches = loader(Broken(20), 2, workers=2, shuffle=False, keep_workers=keep_workers)
    with pytest.raises(KeyError, match="no such item") as failure:
        list(batches)
    assert failure.tb is not None
    assert set(multiprocessing.active_children()) == before
    seen = []
    with pytest.raises(KeyError):  # the next epoch starts new workers and fails in the same place
        seen.extend(batch[0].tolist() for batch in batches)
    assert seen == [[0, 1]]
    assert set(multiprocessing.active_children()) == before


def test_a_loop_that_is_left_early_ends_its_workers() -> None:
    before = set(multiprocessing.active_children())
    for _ in loader(Numbers(20), 2, workers=1):
        break
    assert set(multiprocessing.active_children()) == before


# What cannot work -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("batch_size", "nearest"), [(0, 1), (-3, 1), (2.4, 2), ("8", 8), (None, 1), (True, 1)])
def test_batch_sizes_that_cannot_work_are_told(batch_size, nearest: int) -> None:
    with pytest.raises(ValueError, match=rf"batch_size={batch_size!r} does not work.*works is {nearest}\."):
        loader(Numbers(10), batch_size)


def test_a_batch_larger_than_the_data_is_told_and_works() -> None:
    with pytest.warns(UserWarning, match=r"batch_size=64 is larger than the data set.*one batch of 10\.") as told:
        batches = loader(Numbers(10), 64)
    assert told[0].filename == __file__  # the line of the caller, not one inside the library
    assert [len(b) for b in order(batches)] == [10]


def test_a_batch_larger_than_the_data_with_drop_last_would_give_nothing() -> None:
    with pytest.raises(ValueError, match=r"gives no batch at all.*largest that works is 10\."):
        loader(Numbers(10), 11, drop_last=True)


def test_an_empty_data_set_is_told() -> None:
    with pytest.raises(ValueError, match="data set is empty"):
        loader(TensorDataset(torch.empty(0, 1)), 1)


@pytest.mark.parametrize("workers", [-1, 1.5])
def test_numbers_of_workers_that_cannot_work_are_told(workers) -> None:
    with pytest.raises(ValueError, match=rf"workers={workers} does not work"):
        loader(Numbers(10), 2, workers=workers)


@pytest.mark.parametrize("prefetch_factor", [0, -2, 1.5, True])
@pytest.mark.parametrize("workers", [0, 1])
def test_queues_that_cannot_work_are_told(workers: int, prefetch_factor) -> None:
    with pytest.raises(ValueError, match=rf"prefetch_factor={prefetch_factor!r} does not work.*at least 1"):
        loader(Numbers(10), 2, workers=workers, prefetch_factor=prefetch_factor)


def test_a_worker_reads_as_many_batches_ahead_as_it_may() -> None:
    class Drawn(Sampler):
        """Gives the numbers in order, and keeps those that a worker has been asked for."""

        def __init__(self) -> None:
            self.asked: list[int] = []

        def __len__(self) -> int:
            return 20

        def __iter__(self):
            for number in range(20):
                self.asked.append(number)
                yield number

    # One is handed out, and another asked for in its place.
    for ahead, asked in ((1, [0, 1]), (3, [0, 1, 2, 3])):
        drawn = Drawn()
        batches = iter(loader(Numbers(20), 1, shuffle=False, sampler=drawn, workers=1, prefetch_factor=ahead))
        next(batches)
        assert drawn.asked == asked
        batches.close()
    assert loader(Numbers(4), 2, prefetch_factor=5).prefetch_factor is None  # nobody to read ahead


def test_pinned_memory_without_a_gpu_is_told_once_and_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.warns(UserWarning, match=r"pin_memory=True changes nothing here.*finds none") as told:
        batches = loader(Numbers(4), 2, pin_memory=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once is enough
        assert sorted(itertools.chain(*order(batches))) == [0, 1, 2, 3]
    assert [one.filename for one in told] == [__file__]
    assert not batches.pin_memory


def test_pinned_memory_is_asked_for_where_there_is_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert loader(Numbers(4), 2, pin_memory=True).pin_memory
    assert not loader(Numbers(4), 2).pin_memory


def test_more_workers_than_cores_are_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules[loader_function.__module__]
    monkeypatch.setattr(module, "usable_cores", lambda: 1)
    with pytest.warns(UserWarning, match="workers") as told:
        batches = loader(Numbers(4), 2, workers=200)
    assert len(told) == 1
    assert "workers=200 is more than the 1 core this process may use" in str(told[0].message)
    assert batches.num_workers == 200


def test_workers_within_a_daemon_process_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(multiprocessing.current_process()._config, "daemon", True)
    with pytest.raises(ValueError, match=r"workers=2 cannot start here.*works is 0\."):
        loader(Numbers(4), 2, workers=2)
    assert len(order(loader(Numbers(4), 2))) == 2
