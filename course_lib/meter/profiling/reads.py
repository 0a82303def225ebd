"""Who reads which part of a data set, when, and for how many CPU seconds.

    reads = TimedReads(images)
    for x, y in loader(reads, 32, workers=2):
        ...
    gantt(Timeline.join([timeline, reads.spans()]))

The workers of a loader are processes of their own. They write what they did into memory that all of them share.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils.data import Dataset, get_worker_info

from course_lib.base.clock import now_s
from course_lib.meter.clocks.spans import Span

__all__ = ["TimedReads"]

_WORKER, _START_S, _END_S, _CPU_S = range(4)  # the columns of a row; a row for each item that began a read


class TimedReads(Dataset[Any]):
    """``dataset``, item for item, which keeps the times of the last read of each item.

    A loader asks for a batch at once; that is one read. Worker 0 is this process, and the workers of a loader are 1,
    2 and so on. Over several epochs a read takes the place of the one before that began with the same item, so ask
    after each epoch, and begin anew with ``forget``.

    ``clock`` and ``cpu_clock`` give seconds: that of ``Timeline``, and the CPU seconds of the process that asks.
    ``ValueError`` for a data set without items, ``TypeError`` for one without a length.
    """

    def __init__(
        self,
        dataset: Any,
        *,
        clock: Callable[[], float] = now_s,
        cpu_clock: Callable[[], float] = time.process_time,
    ) -> None:
        if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
            raise TypeError(
                f"dataset={dataset!r} does not work: it has a length and gives items by number, as a list does and "
                "torch's map-style data sets do."
            )
        if len(dataset) == 0:
            raise ValueError("The data set is empty: there is nothing to read. The smallest that works has 1 item.")
        self.dataset = dataset
        self._rows = torch.zeros(len(dataset), 4, dtype=torch.float64).share_memory_()
        self._clock, self._cpu_clock = clock, cpu_clock
        self._process_id, self._cpu_before_s = os.getpid(), cpu_clock()

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """The items of a batch, as PyTorch's loader asks for them."""
        worker = get_worker_info()
        cpu_before_s = self._last_cpu_s() if worker is not None else self._cpu_clock()
        start_s = self._clock()
        if hasattr(self.dataset, "__getitems__"):
            items = self.dataset.__getitems__(indices)
        else:
            items = [self.dataset[index] for index in indices]
        end_s, self._cpu_before_s = self._clock(), self._cpu_clock()
        if len(indices):
            number, cpu_s = 0 if worker is None else worker.id + 1, self._cpu_before_s - cpu_before_s
            self._rows[indices[0]] = torch.tensor((number, start_s, end_s, cpu_s), dtype=torch.float64)
        return items

    def spans(self) -> tuple[Span, ...]:
        """The reads by their start, on the clock of ``Timeline``: each a span "read" whose rank is the worker."""
        rows = self._taken().tolist()
        spans = (Span(int(row[_WORKER]), "read", "data", row[_START_S], row[_END_S]) for row in rows)
        return tuple(sorted(spans, key=lambda span: (span.start_s, span.rank)))

    @property
    def cpu_s(self) -> float:
        """CPU seconds of the reads. In this process those of reading alone; of a worker all that it used up to the
        end of its last read: its start, reading, and putting batches together.
        """
        return float(self._taken()[:, _CPU_S].sum())

    def forget(self) -> None:
        """Begin anew: no item has been read."""
        self._rows.zero_()

    def _taken(self) -> torch.Tensor:
        return self._rows[self._rows[:, _START_S] > 0]

    def _last_cpu_s(self) -> float:
        """Up to where this process has been accounted for; a worker begins with what its start has taken."""
        if self._process_id != os.getpid():
            self._process_id, self._cpu_before_s = os.getpid(), 0.0
        return self._cpu_before_s
