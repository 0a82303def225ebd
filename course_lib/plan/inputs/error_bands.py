"""How wrong the planner may be: bands from what it told of published runs that it had not been fitted to.

``error_bands.json`` keeps, by kind of layout, between which factors of what was told 8 of 10 of such runs took; and how
far apart two layouts of one job have to be told before their order held in 9 of 10 pairs. ``course bench published
FILE --fit`` writes it anew. Two cases: ``elsewhere``, a cluster that nobody has measured, with constants typical of
others; and ``more``, a cluster whose own runs on fewer GPUs were fitted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from math import ceil, exp, floor, log
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
    "band_of_ratios",
    "error_bands",
    "kind_of",
    "save_bands",
    "tie_of_pairs",
]

BANDS_FILE = Path(__file__).with_name("error_bands.json")
CASES = ("elsewhere", "more")
ALL_KINDS = "any layout"
_TAIL = 0.1  # on each side of an 80 % band
_LEAST_RUNS = 10  # a kind with fewer takes the band of all


@dataclass(frozen=True)
class ErrorBand:
    """8 of 10 of ``runs`` took ``low`` to ``high`` times what was told."""

    low: float
    high: float
    runs: int

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
    have come the other way round.
    """

    time: Mapping[str, ErrorBand]
    memory: ErrorBand
    tie: float

    def record(self) -> dict[str, object]:
        """As JSON keeps them, to three digits behind the point."""
        return {
            "time": {kind: _rounded(band) for kind, band in self.time.items()},
            "memory": _rounded(self.memory),
            "tie": round(self.tie, 3),
        }

    def judged_kind(self, cluster: ClusterSpec, layout: Layout) -> str:
        """The layout's kind; any layout, where too few of its kind were judged."""
        kind = kind_of(cluster, layout)
        return kind if kind in self.time and self.time[kind].runs >= _LEAST_RUNS else ALL_KINDS

    def time_band(self, cluster: ClusterSpec, layout: Layout) -> ErrorBand:
        """That of the layout's kind."""
        return self.time[self.judged_kind(cluster, layout)]


@checked
def kind_of(cluster: ClusterSpec, layout: Layout) -> str:
    """What leaves an NVLink domain, by what it does to the error: nothing, weights, products, stages, or gradients."""
    if layout.gpus <= cluster.domain_size:
        return "one NVLink domain"
    if layout.sharding == 3:
        return "weights sharded over nodes"
    if layout.tp > cluster.domain_size:
        return "tensor axis over nodes"
    return "pipeline over nodes" if layout.pp > 1 else "gradients over nodes"


@checked
def band_of_ratios(ratios: Sequence[float]) -> ErrorBand:
    """The band that holds 8 of 10 runs to come, from measured over told; as wide as they lie where they are few.

    ValueError for none.

    >>> band_of_ratios([0.9, 1.0, 1.1])
    ErrorBand(low=0.9, high=1.1, runs=3)
    """
    if not ratios:
        raise ValueError("None of the runs was judged; a band needs one at least.")
    found, count = sorted(ratios), len(ratios)
    low = max(1, floor(_TAIL * (count + 1)))
    high = min(count, ceil((1 - _TAIL) * (count + 1)))
    return ErrorBand(found[low - 1], found[high - 1], count)


@checked
def tie_of_pairs(pairs: Iterable[tuple[float, float]]) -> float:
    """How far apart two steps have to be told, from measured over told of two layouts of one job each time.

    8 of 10 such ratios lie closer together; of the others half are in the other direction, which does no harm.
    ValueError for no pair.
    """
    apart = sorted(abs(log(one / other)) for one, other in pairs)
    if not apart:
        raise ValueError("No job has two layouts that were judged; a tie needs a pair at least.")
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
        "about": "Measured over told, of published runs that the constants were not fitted to: 8 of 10 lie between low "
        "and high. tie: told no farther apart, two layouts of one job are a tie.",
        "origin": dict(origin),
    }
    record |= {case: each.record() for case, each in bands.items()}
    write_whole(path, (json.dumps(record, indent=1) + "\n").encode())
    _read.cache_clear()


def _rounded(band: ErrorBand) -> dict[str, float]:
    return {name: round(number, 3) for name, number in asdict(band).items()}
