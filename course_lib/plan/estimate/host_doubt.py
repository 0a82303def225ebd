"""How much longer or shorter a step may be for its host, of which nobody knows how fast it issues a layer's work.

Where the GPU has more to do than the host needs to issue it, nothing changes. Where the host sets the pace, or would
with one that is somewhat slower, its time counts. It is of processors and of the program, so other clusters tell little
of it: measured ones differ by a factor of two, and what is typical has the spread that ``KINDS`` says.
"""

from __future__ import annotations

from dataclasses import replace
from math import exp

from course_lib.plan.estimate.memo import Memo
from course_lib.plan.estimate.step_time import step_parts
from course_lib.plan.inputs.cluster import ClusterSpec
from course_lib.plan.inputs.constants import KINDS, Constants
from course_lib.plan.inputs.job import Job
from course_lib.plan.inputs.layout import Layout
from course_lib.plan.inputs.software import Software

__all__ = ["HOST_DOUBT", "HostDoubt"]

_HOST = KINDS["host_layer_s"]
# How many times as long, or as short, as is typical a host may take: 8 of 10 normal draws lie within 1.28 spreads.
HOST_DOUBT = round(exp(1.2816 * _HOST.spread), 1)


class HostDoubt:
    """Steps of a job's layouts with slower and faster hosts. What layouts share is worked out once."""

    def __init__(self, job: Job, cluster: ClusterSpec, constants: Constants, software: Software) -> None:
        self._job, self._cluster, self._constants, self._software = job, cluster, constants, software
        self._memos: dict[float, Memo] = {}

    def reach(self, layout: Layout, doubt: float = HOST_DOUBT) -> tuple[float, float]:
        """How many times as long as told a step takes, with a host ``doubt`` times faster and slower; (1, 1) if same.

        >>> from course_lib.plan import MODELS, Constants, Job, Layout, Software, cluster_of
        >>> eight = HostDoubt(Job(MODELS["llama-3-8b"], 8192, 64), cluster_of("8xh100"), Constants(), Software())
        >>> eight.reach(Layout(dp=8, sharding=3))
        (1.0, 1.0)
        """
        if doubt == 1:
            return 1.0, 1.0
        told_s = self.told_s(layout)
        return self._step_s(layout, 1 / doubt) / told_s, self._step_s(layout, doubt) / told_s

    def told_s(self, layout: Layout) -> float:
        """The step with a host as told."""
        return self._step_s(layout, 1.0)

    def _step_s(self, layout: Layout, times: float) -> float:
        host_s = min(max(self._constants.host_layer_s * times, _HOST.lowest), _HOST.highest)
        constants, memo = replace(self._constants, host_layer_s=host_s), self._memos.setdefault(times, Memo())
        return step_parts(self._job, layout, self._cluster, constants, self._software, memo).total_s
