"""The bucket explorer: how large a bucket should be, on a link of your choice, predicted and measured.

The prediction is the cost model's. The measurement runs our DistributedDataParallel on real ranks over a shaped link
(traffic shaping); the layers' computing is paced (emulated compute), so that two cores can play two devices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets

from course_lib.base.checks import at_least
from course_lib.base.text import first_line
from course_lib.cluster.links.link_times import link_time
from course_lib.cluster.links.links import Links
from course_lib.cost.data_parallel.step import StepTime, ddp_buckets, ddp_step
from course_lib.layouts.link import Link
from course_lib.parallel.data.paced_layers import paced_step_s
from course_lib.plot.boards.bucket_board import BucketBoard
from course_lib.plot.raster import Raster
from course_lib.widgets.controls import dropdown
from course_lib.widgets.explorer import Explorer
from course_lib.widgets.rank_explorer import ranks_of

if TYPE_CHECKING:
    from course_lib.cluster.api.cluster import Cluster

__all__ = ["BucketExplorer"]

_KIB = 1024
_SIZES = {
    (f"{size // _KIB} KiB" if size < 1024 * _KIB else f"{size // 1024 // _KIB} MiB"): size
    for size in (64 * _KIB * 2**power for power in range(6))
}
_LATENCIES = {"0": 0.0, "1 ms": 1e-3, "5 ms": 5e-3, "10 ms": 10e-3}
_BANDWIDTHS = {"20 MB/s": 20e6, "50 MB/s": 50e6, "100 MB/s": 100e6, "1 GB/s": 1e9}
_STARTS = {"bucket": "64 KiB", "latency": "5 ms", "bandwidth": "50 MB/s"}


class BucketExplorer(Explorer[int]):
    """Controls above a picture of the step, a line that says the same in words, and a button that runs it.

    The model has ``num_layers`` layers of ``layer_bytes`` of gradients, and the step the times given, in seconds. The
    button needs ``cluster``; without one there are predictions only. ``yours`` is the learner's own DDP, by
    which ``paced_step_s`` wraps a module: the button runs it after the course's, and its times have their own mark.
    """

    def __init__(
        self,
        cluster: Cluster | None = None,
        *,
        num_layers: int = 16,
        layer_bytes: int = 64 * _KIB,
        forward_s: float = 0.020,
        backward_s: float = 0.040,
        yours: Callable[..., Any] | None = None,
    ) -> None:
        at_least(1, num_layers=num_layers, layer_bytes=layer_bytes)
        self._cluster, self._num_ranks = cluster, ranks_of(cluster, 2)
        self._model: dict[str, Any] = {"num_layers": num_layers, "layer_bytes": layer_bytes}
        self._times: dict[str, Any] = {"forward_s": forward_s, "backward_s": backward_s}
        self._yours = yours
        self._stopped: dict[tuple[str, str, int], str] = {}  # by link and size: why yours did not run
        self._measured: dict[tuple[str, str, bool], dict[int, float]] = {}  # by link and by whether yours, then by size
        self._board = BucketBoard(list(_SIZES.values()))
        self.bucket = dropdown("bucket size", _SIZES, _STARTS["bucket"], width="14em")
        self.latency = dropdown("latency", _LATENCIES, _STARTS["latency"], width="14em")
        self.bandwidth = dropdown("bandwidth", _BANDWIDTHS, _STARTS["bandwidth"], width="14em")
        self.measure = widgets.Button(
            description="measure",
            tooltip=f"Run this choice on {self._num_ranks} ranks",
            disabled=cluster is None,
        )
        self.measure.on_click(self._measure)
        super().__init__([[self.bucket, self.latency, self.bandwidth, self.measure]])

    @property
    def choice(self) -> int:
        """The size of a bucket, in bytes."""
        return _SIZES[self.bucket.value]

    @property
    def link(self) -> Link:
        """The link that is chosen now."""
        return Link(_LATENCIES[self.latency.value], _BANDWIDTHS[self.bandwidth.value])

    def predict(self, size_bytes: int) -> StepTime:
        """The step on the chosen link with buckets of this size, by the cost model."""
        buckets = ddp_buckets(
            [self._model["layer_bytes"]] * self._model["num_layers"],
            bucket_cap_bytes=size_bytes,
            first_bucket_bytes=size_bytes,
        )
        links = Links(self.link)
        return ddp_step(
            buckets,
            **self._times,
            all_reduce_time_s=lambda size: link_time("all_reduce", int(size), num_ranks=self._num_ranks, links=links),
        )

    def _shown(self, choice: int) -> tuple[Raster, list[str]]:
        curve = {size: self.predict(size).time_s for size in _SIZES.values()}
        picture = self._board.draw(self.predict(choice), choice, curve, self._times_of(), self._times_of(yours=True))
        stopped = self._stopped.get((self.latency.value, self.bandwidth.value, choice))
        return picture, [picture.alt, *([stopped] if stopped else [])]

    def _times_of(self, *, yours: bool = False) -> dict[int, float]:
        """What was measured on the link that is chosen now: seconds by size."""
        return self._measured.setdefault((self.latency.value, self.bandwidth.value, yours), {})

    def __repr__(self) -> str:
        return f"Bucket explorer ({self.bucket.value}, {self.latency.value}, {self.bandwidth.value})"

    def _measure(self, _: object) -> None:
        cluster, size = self._cluster, self.choice
        assert cluster is not None  # the button is disabled without one

        def step_s(wrap: Callable[..., Any] | None) -> float:
            return paced_step_s(
                cluster, bucket_size_bytes=size, link=self.link, wrap=wrap, **self._model, **self._times
            )

        def measure() -> None:
            self._times_of()[size] = step_s(None)
            if self._yours is not None:
                place = (self.latency.value, self.bandwidth.value, size)
                self._stopped.pop(place, None)
                try:
                    self._times_of(yours=True)[size] = step_s(self._yours)
                except Exception as error:  # whatever a learner's does, the course's is shown
                    self._stopped[place] = f"Your run did not come to its end: {first_line(error)}"
            self._draw()

        self._on_ranks(self.measure, f"{self._num_ranks} ranks take three steps ...", measure)
