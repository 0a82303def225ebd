"""Batches of a data set, in an order that a seed decides: a thin cover over PyTorch's ``DataLoader``."""

from __future__ import annotations

import multiprocessing
import sys
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, RandomSampler

from course_lib.base.checks import above_zero, at_least, at_most
from course_lib.devices.container_limits import usable_cores

__all__ = ["loader"]

_LARGEST_SEED = 2**63 - 1


def loader(
    dataset: Dataset[Any],
    batch_size: int = 32,
    *,
    shuffle: bool = True,
    sampler: Iterable[int] | None = None,
    seed: int = 0,
    drop_last: bool = False,
    workers: int = 0,
    keep_workers: bool = False,
    prefetch_factor: int = 2,
    pin_memory: bool = False,
    timeout_s: float = 120.0,
) -> DataLoader[Any]:
    """Cut ``dataset`` into batches: ``for x, y in loader(train, 64): ...``.

    The order depends on ``seed`` and on how many epochs went before, never on ``workers`` or on random
    numbers drawn elsewhere: a loader made anew with the same seed gives the same batches again. A
    ``sampler`` brings its own order and replaces ``shuffle``. ``drop_last`` leaves out a last batch that
    would be short.

    ``workers`` processes prepare up to ``prefetch_factor`` batches each ahead while this one computes; 0 means that
    this process does both, which is fastest for data already in memory. They end with each epoch unless
    ``keep_workers``. A worker that gives nothing for ``timeout_s`` ends the loop with a ``RuntimeError``.
    ``pin_memory`` hands out batches in page-locked memory of the host, from which a GPU copies while it computes;
    without a GPU it changes nothing, and a warning says so.

    ``ValueError`` for a batch size, a number of workers or of batches ahead that cannot work.
    """
    _check_dataset(dataset)
    _check_seed(seed)
    above_zero(timeout_s=timeout_s)
    num_examples = len(dataset)  # type: ignore[arg-type]  # Dataset promises no length; all of ours have one
    _check_batch_size(batch_size, num_examples, drop_last)
    _check_workers(workers, prefetch_factor)
    if sampler is None and shuffle:
        # A generator of its own: workers draw their seeds from the other one, and must not change the order.
        sampler = RandomSampler(range(num_examples), generator=torch.Generator().manual_seed(seed))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="This DataLoader will create")  # _check_workers said it
        return _Loader(
            dataset,
            batch_size,
            sampler=sampler,
            drop_last=drop_last,
            generator=torch.Generator().manual_seed(seed),
            pin_memory=pin_memory and _can_pin(),
            **_of_workers(workers, keep_workers, prefetch_factor, timeout_s),
        )


class _Loader(DataLoader[Any]):
    """A ``DataLoader`` whose workers end at once when one of them fails.

    Left alone they live on for as long as something holds the traceback, and a notebook holds the last one;
    then they take five seconds each to end (seen with torch 2.13).
    """

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]  # DataLoader names its own iterator class
        batches = super().__iter__()
        try:
            yield from batches
        except (Exception, KeyboardInterrupt):
            if self.num_workers:
                batches._shutdown_workers()  # type: ignore[attr-defined]  # DataLoader has no public way
                self._iterator = None  # kept workers are gone too: the next epoch starts new ones
            raise


def _of_workers(workers: int, keep: bool, prefetch_factor: int, timeout_s: float) -> dict[str, Any]:
    """What ``DataLoader`` is told of its workers; without any, it refuses most of it."""
    if workers == 0:
        return {"num_workers": 0}
    return {
        "num_workers": workers,
        "multiprocessing_context": _context(),
        "persistent_workers": keep,
        "prefetch_factor": prefetch_factor,
        "timeout": timeout_s,
    }


def _context() -> str | None:
    """How workers start. Forked ones need no pickling, so a data set written in a notebook cell works too.

    A fork is safe here although the parent may have computed on several threads: a worker computes on one,
    and leaves the parent's GPUs alone. Elsewhere than on Linux the system's own way is kept.
    """
    return "fork" if sys.platform == "linux" else None


def _check_dataset(dataset: object) -> None:
    if isinstance(dataset, str | bytes | dict) or not all(
        hasattr(dataset, name) for name in ("__len__", "__getitem__")
    ):
        raise TypeError(
            f"dataset={dataset!r} does not work: it has a length and gives items by number, as a list does and "
            "torch's map-style data sets do."
        )


def _check_batch_size(batch_size: int, num_examples: int, drop_last: bool) -> None:
    at_least(1, batch_size=batch_size)
    if num_examples == 0:
        raise ValueError("The data set is empty: there is nothing to make batches of.")
    if batch_size > num_examples and drop_last:
        raise ValueError(
            f"batch_size={batch_size} with drop_last=True gives no batch at all: the data set has "
            f"{num_examples} examples, and a batch that is not full is left out. The largest that works is "
            f"{num_examples}."
        )
    if batch_size > num_examples:
        warnings.warn(
            f"batch_size={batch_size} is larger than the data set: an epoch is one batch of {num_examples}.",
            stacklevel=3,
        )


def _check_seed(seed: int) -> None:
    at_least(0, seed=seed)
    at_most(_LARGEST_SEED, seed=seed)


def _check_workers(workers: int, prefetch_factor: int) -> None:
    at_least(0, workers=workers)
    at_least(1, prefetch_factor=prefetch_factor)
    if workers and multiprocessing.current_process().daemon:
        raise ValueError(
            f"workers={workers} cannot start here: this process may not start others. The only number that works is 0."
        )
    cores = usable_cores() if workers else 0
    if workers > cores:
        warnings.warn(
            f"workers={workers} is more than the {cores} {'core' if cores == 1 else 'cores'} this process "
            f"may use: they will take turns, and batches come no sooner than with {cores}.",
            stacklevel=3,
        )


def _can_pin() -> bool:
    if torch.cuda.is_available():
        return True
    warnings.warn(
        "pin_memory=True changes nothing here: page-locked memory is for copies to a GPU, and PyTorch finds none. "
        "Write pin_memory=torch.cuda.is_available() where both may be.",
        stacklevel=3,
    )
    return False
