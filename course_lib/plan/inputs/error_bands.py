"""How wrong the planner may be: bands from what it told of published runs that it had not been fitted to.

``error_bands.json`` keeps, by kind of layout, between which factors of the predicted step 8 of 10 of such runs took.
It also keeps how far apart two predictions for one job have to lie before their order held in 9 of 10 pairs. Each
cluster counts as much as any other, however many runs it has: errors of one cluster are alike. ``runs/bands.py``
chooses how wide the bands are, and ``course bench published FILE --fit`` writes them anew. Two cases: ``elsewhere``, a
cluster that nobody has measured, with constants typical of others; and ``more``, a cluster whose own runs on fewer GPUs
were fitted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from math import ceil, exp, log
from pathlib import Path

from course_lib.base.checked import checked
from course_lib.base.checks import known
from course_lib.base.whole_file import write_whole
from course_lib.plan.inputs.cluster import ClusterSpec
from course_lib.plan.inputs.layout import Layout

__all__ = [
    "ALL_KINDS",
    "CASES",
    "ErrorBand",
    "ErrorBands",
    "band_of_clusters",
    "error_bands",
    "kind_of",
    "save_bands",
    "tie_of_pairs",
    "widened",
]

BANDS_FILE = Path(__file__).with_name("error_bands.json")
CASES = ("elsewhere", "more")
ALL_KINDS = "any layout"
_TAIL = 0.1  # on each side of an 80 % band
_LEAST_CLUSTERS = 4  # of a kind with fewer the band is at least as wide as that of all


@dataclass(frozen=True)
class ErrorBand:
    """8 of 10 runs took ``low`` to ``high`` times what was told; ``runs`` on ``clusters`` clusters say so."""

    low: float
    high: float
    runs: int
    clusters: int

    def and_of(self, other: ErrorBand) -> ErrorBand:
        """Wide enough for both; of the same runs."""
        return replace(self, low=min(self.low, other.low), high=max(self.high, other.high))

    def reaching(self, low: float, high: float) -> ErrorBand:
        """The same around a step that may be ``low`` to ``high`` times as long as told for a reason of its own."""
        return replace(self, low=self.low * low, high=self.high * high)

    def around(self, told: float) -> tuple[float, float]:
        """From where to where, in the unit of ``told``."""
        return self.low * told, self.high * told

    def holds(self, told: float, measured: float) -> bool:
        """Whether a measurement lies within."""
        return self.low * told <= measured <= self.high * told


@dataclass(frozen=True)
class ErrorBands:
    """Of one case: bands of the step's time by kind of layout, of memory, and what makes a tie.

    ``tie`` is a ratio of two steps: where layouts of one job were told no farther apart, more than 1 of 10 pairs could
    have come the other way round. ``host``: how many times faster or slower than told a host may be; ``time`` is of
    steps as if it were known, and what it may change comes on top.
    """

    time: Mapping[str, ErrorBand]
    memory: ErrorBand
    tie: float
    host: float = 1.0

    def record(self) -> dict[str, object]:
        """As JSON keeps them, to three digits behind the point."""
        return {
            "time": {kind: _rounded(band) for kind, band in self.time.items()},
            "memory": _rounded(self.memory),
            "tie": round(self.tie, 3),
            "host": self.host,
        }

    def judged_kind(self, cluster: ClusterSpec, layout: Layout) -> str:
        """The layout's kind; any layout, where none of its kind was judged."""
        kind = kind_of(cluster, layout)
        return kind if kind in self.time else ALL_KINDS

    def time_band(
        self, cluster: ClusterSpec, layout: Layout, reach: Callable[[Layout, float], tuple[float, float]] | None = None
    ) -> ErrorBand:
        """That of the layout's kind; ``reach``, as ``Listing`` has it, adds what a slower or faster host would do."""
        band = self.time[self.judged_kind(cluster, layout)]
        return band if reach is None else band.reaching(*reach(layout, self.host))


@checked
def kind_of(cluster: ClusterSpec, layout: Layout) -> str:
    """What leaves an NVLink domain, by what it does to the error: nothing, products, weights, stages, or gradients."""
    if layout.gpus <= cluster.domain_size:
        return "one NVLink domain"
    if layout.tp > cluster.domain_size:
        return "tensor axis over nodes"
    if layout.sharding == 3:
        return "weights sharded over nodes"
    return "pipeline over nodes" if layout.pp > 1 else "gradients over nodes"


@checked
def band_of_clusters(clusters: Iterable[Sequence[float]], tail: float = _TAIL) -> ErrorBand:
    """The band from measured over told, by cluster; each cluster has the same weight.

    ``tail``: the share of all weight that may lie below, and above. ValueError for no ratio, and for a tail below 0 or
    of a half or more.

    >>> band_of_clusters([[0.9, 1.0], [1.1]])
    ErrorBand(low=0.9, high=1.1, runs=3, clusters=2)
    """
    found = [ratios for ratios in clusters if ratios]
    if not found:
        raise ValueError("None of the runs was compared with its prediction; a band needs at least one such run.")
    if not 0 <= tail < 0.5:
        raise ValueError(f"tail is {tail:g}; it is at least 0 and below 0.5. The nearest is {0 if tail < 0 else 0.49}.")
    weighed = sorted((ratio, 1 / (len(ratios) * len(found))) for ratios in found for ratio in ratios)
    low, high = _beyond(weighed, tail), _beyond(weighed[::-1], tail)
    return ErrorBand(low, high, len(weighed), len(found))


def _beyond(weighed: Iterable[tuple[float, float]], tail: float) -> float:
    """The first number before which no more weight lies than ``tail``."""
    before, found = 0.0, 1.0
    for ratio, weight in weighed:
        found, before = ratio, before + weight
        if before > tail + 1e-12:
            break
    return found


def widened(bands: Mapping[str, ErrorBand]) -> dict[str, ErrorBand]:
    """The same, those of few clusters at least as wide as that of all."""
    whole = bands[ALL_KINDS]
    return {
        kind: band if band.clusters >= _LEAST_CLUSTERS else band.and_of(whole) for kind, band in sorted(bands.items())
    }


@checked
def tie_of_pairs(pairs: Iterable[tuple[float, float]]) -> float:
    """How far apart two steps have to be told, from measured over told of two layouts of one job each time.

    8 of 10 such ratios lie closer together; of the others half are in the other direction, which does no harm.
    ValueError for no pair.
    """
    apart = sorted(abs(log(one / other)) for one, other in pairs)
    if not apart:
        raise ValueError("No job has two layouts that were compared with predictions; a tie needs at least one pair.")
    return exp(apart[min(len(apart), ceil((1 - 2 * _TAIL) * (len(apart) + 1))) - 1])


@lru_cache(maxsize=4)
def _read(path: Path) -> dict[str, ErrorBands]:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        return {
            case: ErrorBands(
                {kind: ErrorBand(**band) for kind, band in record[case]["time"].items()},
                ErrorBand(**record[case]["memory"]),
                record[case]["tie"],
                record[case]["host"],
            )
            for case in CASES
        }
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} holds no bands: {error!r}") from None


@checked
def error_bands(case: str = "elsewhere", path: Path = BANDS_FILE) -> ErrorBands:
    """The bands of a case, one of ``CASES``. ValueError for another."""
    return _read(path)[known("case", case, CASES)]


@checked
def save_bands(bands: Mapping[str, ErrorBands], origin: Mapping[str, str], path: Path = BANDS_FILE) -> None:
    """Write the bands of all cases, and where they come from."""
    record: dict[str, object] = {
        "about": "Measured over predicted, of published runs that the constants were not fitted to: 8 of 10 lie "
        "between low and high, on clusters that the band was not made of. tie: predicted no farther apart, two layouts "
        "of one job are a tie.",
        "origin": dict(origin),
    }
    record |= {case: each.record() for case, each in bands.items()}
    write_whole(path, (json.dumps(record, indent=1) + "\n").encode())
    _read.cache_clear()


def _rounded(band: ErrorBand) -> dict[str, float]:
    return {name: round(number, 3) for name, number in asdict(band).items()}
