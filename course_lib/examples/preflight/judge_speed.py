"""What is odd about speed: links beside each other and beside a data sheet, all-reduce, products."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from .judge_machines import ranks_text
from .report import COULD_NOT, LOOK, OK, Finding

__all__ = ["WITHIN_GB_PER_S", "Pair", "judge_links", "judge_products", "judge_reduce", "slow_links"]

WITHIN_GB_PER_S = {"v100": 150, "a100": 300, "h100": 450, "h200": 450, "b200": 900}
"""NVLink of a GPU in each direction, in GB/s, as NVIDIA's data sheets sell them: SXM modules with all links."""

_SLOW = 0.7  # of what others of the kind reach
_OF_SHEET = {"link": 0.6, "all-reduce": 0.6}  # what large messages reach of a data sheet, at the least
Pair = tuple[int, int]
Measured = Mapping[Pair, tuple[float, float]]


def slow_links(measured: Measured) -> list[Pair]:
    """Pairs that reach less than ``_SLOW`` of the median of all, or take three times its latency."""
    latency_s, rate = (statistics.median(values) for values in zip(*measured.values(), strict=True))
    return [pair for pair, (takes_s, gets) in measured.items() if gets < _SLOW * rate or takes_s > 3 * latency_s]


def judge_links(measured: Measured, node_of: Sequence[int], sheet: Mapping[str, float | None]) -> list[Finding]:
    """A finding for links within nodes, and one for those between; ``sheet`` has bytes/s for both, or ``None``."""
    found = []
    for kind in ("within", "between"):
        mine = {p: v for p, v in measured.items() if (node_of[p[0]] == node_of[p[1]]) == (kind == "within")}
        what = f"links {kind} nodes"
        if not mine:
            one_each = "one rank" if len(node_of) == 1 else "one rank on each node"
            why = one_each if kind == "within" else "one node"
            found.append(Finding(what, COULD_NOT, why))
            continue
        slow = slow_links(mine) if len(mine) > 2 else []
        rates = sorted(rate for _, rate in mine.values())
        text = (
            f"{_rate(rates[0])} to {_rate(rates[-1])}, latency "
            f"{_span_us([latency for latency, _ in mine.values()])}, {len(mine)} pair{'s' * (len(mine) > 1)}"
        )
        expected = sheet.get(kind)
        if slow:
            found.append(Finding(what, LOOK, f"{_blame(slow, mine)}; {text}"))
        elif expected and statistics.median(rates) < _OF_SHEET["link"] * expected:
            share = statistics.median(rates) / expected
            found.append(Finding(what, LOOK, f"{share:.0%} of the {_rate(expected)} that are sold; {text}"))
        elif len(mine) < 3 and not expected:
            found.append(Finding(what, COULD_NOT, f"fewer than three to compare, and no data sheet given; {text}"))
        else:
            found.append(Finding(what, OK, text + ("" if expected else "; no data sheet given")))
    return found


def _blame(slow: Sequence[Pair], measured: Measured) -> str:
    """Who is behind slow pairs: a rank all of whose links are slow, or the pairs themselves."""
    ranks = sorted({rank for pair in measured for rank in pair})
    links_of = {rank: [pair for pair in measured if rank in pair] for rank in ranks}
    sick = [r for r in ranks if len(links_of[r]) > 1 and all(pair in slow for pair in links_of[r])]
    rest = [pair for pair in slow if not set(pair) & set(sick)]
    parts = [f"every link of rank {rank} is slow" for rank in sick]
    parts += [f"rank {a} to rank {b} is slow ({_rate(measured[a, b][1])})" for a, b in rest]
    return ", ".join(parts)


def judge_reduce(
    rates: Mapping[str, Sequence[float]], sheet: Mapping[str, float | None], num_ranks: int
) -> list[Finding]:
    """A finding for each kind of group; ``sheet`` as for links."""
    found = []
    for kind, text in (("within", "within nodes"), ("between", "between nodes"), ("all", "over all ranks")):
        what = f"all-reduce {text}"
        if kind not in rates:
            why = "one rank" if num_ranks == 1 else "no two ranks of this kind, or nodes of unequal size"
            found.append(Finding(what, COULD_NOT, why))
            continue
        slowest, fastest = min(rates[kind]), max(rates[kind])
        seen = f"bus bandwidth {_rate(slowest)}" + (f" to {_rate(fastest)}" if len(rates[kind]) > 1 else "")
        expected = sheet.get(kind)
        if expected and slowest < _OF_SHEET["all-reduce"] * expected:
            found.append(Finding(what, LOOK, f"{slowest / expected:.0%} of the {_rate(expected)} sold; {seen}"))
        elif slowest < _SLOW * fastest and kind == "within":
            number = list(rates[kind]).index(slowest)
            found.append(Finding(what, LOOK, f"node {number} is slower than others; {seen}"))
        elif not expected and kind != "all":
            found.append(Finding(what, COULD_NOT, f"no data sheet given; {seen}"))
        else:
            found.append(Finding(what, OK, seen))
    return found


def judge_products(flops_per_s: Sequence[float]) -> Finding:
    """From each rank's operations a second."""
    fastest = max(flops_per_s)
    slow = [rank for rank, rate in enumerate(flops_per_s) if rate < _SLOW * fastest]
    text = f"{min(flops_per_s) / 1e12:.3g} to {fastest / 1e12:.3g} TFLOP/s"
    if len(flops_per_s) == 1:
        return Finding("computing", COULD_NOT, f"one rank, with nobody to compare; {fastest / 1e12:.3g} TFLOP/s")
    if slow:
        share = min(flops_per_s) / fastest
        verb = "computes" if len(slow) == 1 else "compute"
        return Finding("computing", LOOK, f"{ranks_text(slow)} {verb} at {share:.0%} of the fastest; {text}")
    return Finding("computing", OK, text)


def _rate(bytes_per_s: float) -> str:
    return f"{bytes_per_s / 1e9:.3g} GB/s" if bytes_per_s >= 1e9 else f"{bytes_per_s / 1e6:.3g} MB/s"


def _span_us(latencies_s: Sequence[float]) -> str:
    return f"{1e6 * min(latencies_s):.0f} to {1e6 * max(latencies_s):.0f} us"
