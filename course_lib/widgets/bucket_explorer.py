"""The bucket explorer: how large a bucket should be, on a link of your choice, predicted and measured.

The prediction is the cost model's. The measurement runs our DistributedDataParallel on real ranks over a shaped link
(traffic shaping); the layers' computing is paced (emulated compute), so that two cores can play two devices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ipywidgets as widgets

from course_lib.base.checks import at_least
from course_lib.cluster.failures.errors import RankError
from course_lib.cluster.links.link_times import link_time
from course_lib.cluster.links.links import Links
from course_lib.cost.data_parallel.step import StepTime, ddp_buckets, ddp_step
from course_lib.forms import Form, busy, picture_box
from course_lib.layouts.link import Link
from course_lib.parallel.data.paced_layers import paced_step_s
from course_lib.plot.boards.bucket_board import BucketBoard
from course_lib.plot.raster import Raster
from course_lib.widgets.controls import dropdown, status

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


class BucketExplorer(Form):
    """Controls above a picture of the step, a line that says the same in words, and a button that runs it.

    The model has ``num_layers`` layers of ``layer_bytes`` of gradients, and the step the times given, in seconds. The
    button needs ``cluster``; without one there are predictions only.
    """

    def __init__(
        self,
        cluster: Cluster | None = None,
        *,
        num_layers: int = 16,
        layer_bytes: int = 64 * _KIB,
        forward_s: float = 0.020,
        backward_s: float = 0.040,
    ) -> None:
        at_least(1, num_layers=num_layers, layer_bytes=layer_bytes)
        if cluster is not None and not hasattr(cluster, "world_size"):
            raise ValueError(
                f"cluster={cluster!r} is no cluster. Give shared_cluster(2), or nothing for predictions alone."
            )
        self._cluster = cluster
        self._num_ranks = 2 if cluster is None else cluster.world_size
        self._model: dict[str, Any] = {"num_layers": num_layers, "layer_bytes": layer_bytes}
        self._times: dict[str, Any] = {"forward_s": forward_s, "backward_s": backward_s}
        self._measured: dict[tuple[str, str], dict[int, float]] = {}  # by link, then by size
        self._board = BucketBoard(list(_SIZES.values()))
        self.bucket = dropdown("bucket size", _SIZES, _STARTS["bucket"], width="14em")
        self.latency = dropdown("latency", _LATENCIES, _STARTS["latency"], width="14em")
        self.bandwidth = dropdown("bandwidth", _BANDWIDTHS, _STARTS["bandwidth"], width="14em")
        self.measure = widgets.Button(
            description="measure",
            tooltip=f"Run this choice on {self._num_ranks} ranks",
            disabled=cluster is None,
        )
        self.image = picture_box(width="768px")
        self.words = widgets.HTML()
        for control in (self.bucket, self.latency, self.bandwidth):
            control.observe(self._draw, names="value")
        self.measure.on_click(self._measure)
        self._draw()
        wrap = widgets.Layout(flex_flow="row wrap")
        controls = [self.bucket, self.latency, self.bandwidth, self.measure]
        super().__init__([widgets.HBox(controls, layout=wrap), self.image, self.words])

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

    def picture(self) -> Raster:
        """What is shown now, as a picture."""
        size = _SIZES[self.bucket.value]
        curve = {size: self.predict(size).time_s for size in _SIZES.values()}
        return self._board.draw(self.predict(size), size, curve, self._found)

    @property
    def _found(self) -> dict[int, float]:
        return self._measured.setdefault((self.latency.value, self.bandwidth.value), {})

    def __repr__(self) -> str:
        return f"Bucket explorer ({self.bucket.value}, {self.latency.value}, {self.bandwidth.value})"

    def _draw(self, _: object = None) -> None:
        picture = self.picture()
        self.image.value = picture.png()
        self._say(picture.alt)

    def _say(self, text: str) -> None:
        self.words.value = status(text)

    def _measure(self, _: object) -> None:
        assert self._cluster is not None  # the button is disabled without one
        with busy(self.measure):
            self._say(f"{self._num_ranks} ranks take three steps ...")
            size, found = _SIZES[self.bucket.value], self._found
            try:
                found[size] = paced_step_s(
                    self._cluster, bucket_size_bytes=size, link=self.link, **self._model, **self._times
                )
                self._draw()
            except (RankError, RuntimeError) as error:
                self._say(f"The ranks could not run it: {str(error).splitlines()[0]}")
