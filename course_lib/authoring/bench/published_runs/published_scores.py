"""How good predictions are: errors of times and bytes, the null model, and the choice among layouts of one job."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, median

from course_lib.plan.runs.predict_run import Prepared

__all__ = ["Errors", "LayoutChoice", "choices", "kendall_tau", "null_share"]


@dataclass(frozen=True)
class Errors:
    """Relative errors, predicted over measured less 1."""

    values: tuple[float, ...]

    @classmethod
    def of(cls, pairs: Sequence[tuple[float, float]]) -> Errors:
        """From pairs of (predicted, measured)."""
        return cls(tuple(predicted / measured - 1 for predicted, measured in pairs))

    def record(self) -> dict[str, float]:
        """The same numbers by name, and how many errors there are."""
        if not self.values:
            return {"rows": 0}
        sizes = [abs(value) for value in self.values]
        numbers = {
            "mean": mean(sizes),
            "median": median(sizes),
            "largest": max(sizes),
            "bias": mean(self.values),
        }
        return {"rows": len(sizes), **{name: round(number, 4) for name, number in numbers.items()}}

    def __str__(self) -> str:
        """Mean, median and largest absolute error, and bias: the mean with its sign."""
        if not self.values:
            return f"{'-':>8} {'-':>8} {'-':>8} {'-':>8}"
        sizes = [abs(value) for value in self.values]
        numbers = (mean(sizes), median(sizes), max(sizes))
        return " ".join(f"{number:8.1%}" for number in numbers) + f" {mean(self.values):+8.1%}"


@dataclass(frozen=True)
class LayoutChoice:
    """Layouts of one job on as many GPUs: how much slower than the best the predicted best ran, and the order."""

    layouts: int
    regret: float
    tau: float


def null_share(runs: Sequence[Prepared]) -> float:
    """The null model's one constant: the share of peak that the median run reached. ValueError for no runs."""
    shares = [run.one_share_s / run.run.step_s for run in runs if run.run.step_s]
    if not shares:
        raise ValueError("None of the runs has a time; the null model needs one at least.")
    return median(shares)


def choices(runs: Sequence[tuple[Prepared, float]], fits: Sequence[bool] | None = None) -> list[LayoutChoice]:
    """One choice for each job that has three layouts or more, of (run, predicted seconds).

    The planner picks the fastest of those that it says fit (``fits``, in the order of the runs), else of all.
    """
    jobs: dict[tuple[object, ...], list[tuple[bool, float, float]]] = defaultdict(list)
    for (run, predicted_s), is_legal in zip(runs, fits or [True] * len(runs), strict=True):
        if run.run.step_s:
            jobs[run.run.same_job].append((not is_legal, predicted_s, run.run.step_s))
    found = []
    for layouts in jobs.values():
        if len(layouts) >= 3:
            best_s = min(measured for _, _, measured in layouts)
            picked_s = min(layouts)[2]
            pairs = [(predicted, measured) for _, predicted, measured in layouts]
            found.append(LayoutChoice(len(layouts), picked_s / best_s - 1, kendall_tau(pairs)))
    return found


def kendall_tau(pairs: Sequence[tuple[float, float]]) -> float:
    """Kendall's tau-b of pairs of numbers: 1 where both order them alike, -1 where one is the other turned round.

    >>> kendall_tau([(1.0, 10.0), (2.0, 30.0), (3.0, 20.0)])
    0.3333333333333333
    """
    from scipy.stats import kendalltau  # takes a second to import

    first, second = zip(*pairs, strict=True)
    return float(kendalltau(first, second).statistic)
