"""Judges the planner on runs that its constants were not fitted to.

Two ways. *More*: for each cluster, constants are fitted to runs on few GPUs, and runs on more than four times as many
as fit them are judged: of all runs of a cluster those on at most a quarter of its largest, and of those within one
node those on at most a quarter of a node. *Elsewhere*: each run is judged by constants typical of other clusters, and
by what its own cluster's owners have measured of their network with NCCL alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import TypeVar

from course_lib.plan.estimate.host_doubt import HostDoubt
from course_lib.plan.inputs.constants import Constants
from course_lib.plan.inputs.error_bands import kind_of
from course_lib.plan.inputs.profiles import Profile, constants_elsewhere
from course_lib.plan.runs.fit import by_cluster, fit_constants, thinned
from course_lib.plan.runs.predict_run import Prepared

__all__ = ["KeptApart", "elsewhere", "fitted_on_few", "pairs_of_layouts"]

_FEW = 4  # times as many GPUs are judged
_MOST_PAIRS = 200  # of a table
_ALIKE = 1.5  # times as long: what is told farther apart is no question

_Row = TypeVar("_Row")


@dataclass(frozen=True)
class KeptApart:
    """A run, and constants that were not fitted to it."""

    run: Prepared
    constants: Constants

    @property
    def kind(self) -> str:
        """The kind of its layout."""
        machines = self.run.profile.machines(self.run.run.gpus, self.run.run.node_size)
        return kind_of(machines, self.run.run.layout)

    @property
    def cluster(self) -> tuple[str, str]:
        """The cluster and its GPU, by name."""
        return self.run.run.cluster, self.run.run.gpu

    @cached_property
    def told_s(self) -> float:
        """The step that the planner tells."""
        return self.run.step_s(self.constants)

    def reach(self, doubt: float) -> tuple[float, float]:
        """How many times as long a step is told to take with a host ``doubt`` times faster and slower."""
        run, profile = self.run.run, self.run.profile
        if doubt == 1:
            return 1.0, 1.0
        cluster = profile.machines(run.gpus, run.node_size)
        host = HostDoubt(run.job, cluster, self.constants, profile.software(run.dtype))
        fastest = min(self.run.layouts, key=lambda one: host.told_s(one))
        return host.reach(fastest, doubt)

    @property
    def told_bytes(self) -> float:
        """The memory that the planner tells."""
        return self.run.memory(self.constants).total_bytes


def fitted_on_few(runs: Sequence[Prepared], tell: Callable[[str], None]) -> list[KeptApart]:
    """Runs on many GPUs beside constants that runs on few of the same cluster tell; ``tell`` gets a line for a fit."""
    judged = []
    for (cluster, gpu), rows in by_cluster(runs).items():
        timed = [row for row in rows if row.run.step_s]
        node = max(row.run.node_size for row in rows)
        for part in (timed, [row for row in timed if row.run.gpus <= node]):
            largest = max((row.run.gpus for row in part), default=0)
            few = [row for row in part if _FEW * row.run.gpus <= largest]
            more = [row for row in part if _FEW * row.run.gpus > largest]
            if few and (part is timed or largest < max(row.run.gpus for row in timed)):
                tell(f"  fitted {cluster} {gpu} on {len(few)} rows of at most {largest // _FEW} GPUs")
                constants = fit_constants(thinned(few))
                judged += [KeptApart(row, constants) for row in more]
    return judged


def elsewhere(runs: Sequence[Prepared], profiles: dict[tuple[str, str], Profile]) -> list[KeptApart]:
    """Runs beside constants typical of other clusters with their GPU."""
    judged = []
    for (cluster, _), rows in by_cluster(runs).items():
        constants = constants_elsewhere(replace(rows[0].profile, cluster=cluster), profiles)
        judged += [KeptApart(row, constants) for row in rows]
    return judged


def pairs_of_layouts(judged: Sequence[KeptApart]) -> Iterator[tuple[float, float]]:
    """Measured over told of every two layouts of one job that are told alike; of a table, a number of them."""
    jobs: dict[str, dict[tuple[object, ...], list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    for one in judged:
        if one.run.run.step_s:
            told_s = one.told_s
            jobs[one.run.run.table][one.run.run.same_job].append((told_s, one.run.run.step_s / told_s))
    for layouts in jobs.values():
        pairs = [pair for each in layouts.values() for pair in combinations(sorted(each), 2)]
        alike = [(one[1], other[1]) for one, other in pairs if other[0] <= _ALIKE * one[0]]
        yield from _spread(alike, _MOST_PAIRS)


def _spread(rows: Sequence[_Row], most: int) -> list[_Row]:
    """At most so many of the rows, from all over them."""
    return list(rows) if len(rows) <= most else [rows[int(place * len(rows) / most)] for place in range(most)]
