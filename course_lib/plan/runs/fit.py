"""Fits the constants of a cluster to its published runs, within their bounds and near what is typical.

The residual of a run is the logarithm of predicted over measured, in units of what runs differ by on their own; that
of a constant is its distance from the typical value, in units of its spread. So a cluster with one run stays typical,
and one with hundreds is told by them. Runs far off count less and less (Cauchy's loss): some ran on bad nodes.

How much the runs tell of a constant is how much narrower they make it: 1 less the variance of its logarithm after the
fit, in units of the variance before (Laplace's approximation, by the Jacobian at the best values).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from math import log
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from course_lib.plan.inputs.constants import KINDS, Constants

if TYPE_CHECKING:
    from course_lib.plan.runs.predict_run import Prepared

__all__ = ["by_cluster", "fit_and_told", "fit_constants", "thinned"]

_MOST_FITTED = 150  # runs of a cluster; of more, every so many
_NOISE = 0.04  # of the logarithm of a step's time, between runs of one configuration on different days
_FAR = 2.0  # in units of that: from here on a run counts less
_TIMED = tuple(name for name in KINDS if name != "reserve_bytes")
_HOST_STARTS_S = (0.5e-3, 2e-3)  # where the host is never too slow, the fit cannot feel that it might be


def fit_constants(runs: Sequence[Prepared]) -> Constants:
    """The constants that explain the measured times and memory of ``runs`` best. ValueError where none has a time."""
    return fit_and_told(runs)[0]


def fit_and_told(runs: Sequence[Prepared]) -> tuple[Constants, dict[str, float]]:
    """These constants, and how much the runs tell of each, from 0 to 1. ValueError where none has a time."""
    timed = [run for run in runs if run.run.step_s]
    if not timed:
        raise ValueError("None of the runs has a time. The constants need at least one run with a time.")
    from scipy.optimize import least_squares  # takes a third of a second to import

    kinds = [KINDS[name] for name in _TIMED]
    typical, spreads = np.log([kind.typical for kind in kinds]), np.array([kind.spread for kind in kinds])
    bounds = (np.log([kind.lowest for kind in kinds]), np.log([kind.highest for kind in kinds]))

    def residuals(logs: np.ndarray) -> np.ndarray:
        constants = _constants(logs)
        errors = [log(run.step_s(constants) / (run.run.step_s or 1)) / _NOISE for run in timed]
        return np.concatenate([errors, (logs - typical) / spreads])

    found = []
    for host_s in _HOST_STARTS_S:
        start = typical.copy()
        start[_TIMED.index("host_layer_s")] = log(host_s)
        found.append(least_squares(residuals, start, bounds=bounds, loss="cauchy", f_scale=_FAR, x_scale=spreads))
    best = min(found, key=lambda result: result.cost)
    variances = np.diag(np.linalg.inv(best.jac.T @ best.jac)) / spreads**2
    told = {name: float(np.clip(1 - left, 0.0, 1.0)) for name, left in zip(_TIMED, variances, strict=True)}
    return _with_reserve(_constants(best.x), runs), told


def _constants(logs: np.ndarray, reserve_bytes: float = KINDS["reserve_bytes"].typical) -> Constants:
    numbers = {"reserve_bytes": reserve_bytes}
    for name, value in zip(_TIMED, np.exp(logs), strict=True):
        numbers[name] = float(min(max(value, KINDS[name].lowest), KINDS[name].highest))
    return Constants(**numbers)


def _with_reserve(constants: Constants, runs: Sequence[Prepared]) -> Constants:
    """The reserve is what is missing of the measured memory, at the median with two runs of the typical reserve."""
    kind = KINDS["reserve_bytes"]
    missing = [kind.typical] * 2
    for run in runs:
        if run.run.memory_bytes:
            missing.append(run.run.memory_bytes - run.memory(constants).total_bytes + constants.reserve_bytes)
    reserve = min(max(median(missing), kind.lowest), kind.highest)
    return replace(constants, reserve_bytes=reserve)


def by_cluster(runs: Sequence[Prepared]) -> dict[tuple[str, str], list[Prepared]]:
    """By cluster and GPU, which share constants, in the order of the runs."""
    found: dict[tuple[str, str], list[Prepared]] = defaultdict(list)
    for run in runs:
        found[run.run.cluster, run.run.gpu].append(run)
    return found


def thinned(runs: Sequence[Prepared], most: int = _MOST_FITTED) -> list[Prepared]:
    """At most so many runs; where a table has many times what another has, it gives up more of them."""
    kept_runs = list(runs)
    while len(kept_runs) > most:
        largest, count = Counter(run.run.table for run in kept_runs).most_common(1)[0]
        kept = max(most - (len(kept_runs) - count), count // 2, 1)
        own = [run for run in kept_runs if run.run.table == largest]
        chosen = {id(own[int(place * count / kept)]) for place in range(kept)}
        kept_runs = [run for run in kept_runs if run.run.table != largest or id(run) in chosen]
    return kept_runs
