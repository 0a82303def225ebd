"""``--from FILE``: the reader's own machine, from a trace of a job on it or from the file that ``calibrate()`` keeps.

The planner's constants are shares of what a data sheet says. What the file tells replaces those that are typical of
others; each is told in a sentence, and so is what the file could not tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from course_lib.base.named_file import json_of
from course_lib.plan.inputs.calibrated import read_calibrated
from course_lib.plan.inputs.cluster import ClusterSpec
from course_lib.plan.inputs.constants import KINDS, Constants
from course_lib.plan_command.trace_rates import CallRate, ProductRate, TraceRates, read_rates

__all__ = ["constants_from", "constants_of_rates"]

_LARGE_FLOPS = 1e10  # of a product, from which on it tells what large ones reach
_LARGE_BYTES = 1 << 24  # of a call, from which on its start no longer counts
_WORDS = {"matmul_share": "products", "memory_share": "memory", "inside_share": "NVLink", "outside_share": "network"}


def constants_from(path: Path, cluster: ClusterSpec, typical: Constants) -> tuple[Constants, tuple[str, ...]]:
    """Constants with what the file tells, and sentences about it. ValueError for a file that tells nothing."""
    if _is_calibration(path):
        return _of_calibration(path, cluster, typical)
    return constants_of_rates(read_rates(path), path.name, cluster, typical)


def _is_calibration(path: Path) -> bool:
    """Whether it is a small JSON with an entry as ``calibrate()`` writes it. Of others, more is told later."""
    try:
        kept = json_of(path)
    except (OSError, ValueError):
        return False
    return isinstance(kept, dict) and any(isinstance(entry, dict) and "one_core" in entry for entry in kept.values())


def _of_calibration(path: Path, cluster: ClusterSpec, typical: Constants) -> tuple[Constants, tuple[str, ...]]:
    measured = read_calibrated(path)
    shares = {
        "matmul_share": measured.peak_flops_per_s / cluster.peak_flops_per_s,
        "memory_share": measured.memory_bandwidth_bytes_per_s / cluster.memory_bandwidth_bytes_per_s,
        "inside_share": measured.link_bandwidth_bytes_per_s / cluster.domain_bandwidth_bytes_per_s,
    }
    if measured.backend != "nccl":
        del shares["inside_share"]
    constants, told = _with_shares(typical, shares, cluster)
    return constants, (f"From {path.name}, of {measured.name}: {told}.", _not_told(path.name, shares))


def constants_of_rates(
    rates: TraceRates, name: str, cluster: ClusterSpec, typical: Constants
) -> tuple[Constants, tuple[str, ...]]:
    """Constants with what a trace tells, and sentences about it. ValueError where it tells nothing."""
    large = [one for one in rates.products.values() if one.flops >= _LARGE_FLOPS]
    inside, outside = (_fastest(rates, cluster, leaves) for leaves in (False, True))
    shares: dict[str, float] = {}
    if large:
        shares["matmul_share"] = _matmul_share(large, cluster, typical)
    if inside:
        shares["inside_share"] = inside.bus_bytes_per_s / cluster.domain_bandwidth_bytes_per_s
    if outside:
        shares["outside_share"] = outside.bus_bytes_per_s / _ports(outside, cluster)
    if not shares:
        raise ValueError(
            f"--from is {name!r}, and it has nothing that a plan could use. A plan needs a product of two-byte "
            f"numbers with its shape and {_LARGE_FLOPS:.0e} FLOP, or a collective of {_LARGE_BYTES >> 20} MiB with "
            "its size and group. Record it with record_shapes=True, by PyTorch 2.3 or later."
        )
    constants, told = _with_shares(typical, shares, cluster)
    sentences = [f"From {name}, {rates.kernels:,} kernels: {told}."]
    if large:
        sentences.append(f"The products that took longest: {_shapes(large)}.")
    sentences += [f"{_WORDS[which]}: {_call(one)}." for which, one in
                  (("inside_share", inside), ("outside_share", outside)) if one]  # fmt: skip
    if rates.unsized_calls:
        sentences.append(f"{rates.unsized_calls:,} calls of NCCL do not name their collective, size and group.")
    return constants, (*sentences, _not_told(name, shares))


def _matmul_share(products: Sequence[ProductRate], cluster: ClusterSpec, typical: Constants) -> float:
    """Of the peak, in the time that is left after the bytes; at least half of it is arithmetic's."""
    seconds = sum(one.seconds for one in products)
    moved_bytes = sum(one.count * one.moved_bytes for one in products)
    moved_s = moved_bytes / (cluster.memory_bandwidth_bytes_per_s * typical.memory_share)
    flops = sum(one.count * one.flops for one in products)
    return flops / (max(seconds - moved_s, seconds / 2) * cluster.peak_flops_per_s)


def _fastest(rates: TraceRates, cluster: ClusterSpec, leaves: bool) -> CallRate | None:
    """Of the large calls that leave a domain, or do not, the one that reached most."""
    found = [
        one for one in rates.calls.values() if one.size_bytes >= _LARGE_BYTES and (_domains(one, cluster) > 1) is leaves
    ]
    return max(found, key=lambda one: one.bus_bytes_per_s, default=None)


def _domains(call: CallRate, cluster: ClusterSpec) -> int:
    """Over how many domains the group's ranks go; neighbours, where the trace does not tell which ranks they are."""
    ranks = call.ranks or range(call.group_size)
    return len({rank // cluster.domain_size for rank in ranks})


def _ports(call: CallRate, cluster: ClusterSpec) -> float:
    """What the group's ranks on a node have of its ports, in bytes a second."""
    ranks = call.ranks or range(call.group_size)
    nodes = len({rank // cluster.node_size for rank in ranks})
    return cluster.node_bandwidth_bytes_per_s * min(1.0, call.group_size / nodes / cluster.node_size)


def _with_shares(typical: Constants, shares: dict[str, float], cluster: ClusterSpec) -> tuple[Constants, str]:
    """Within their bounds; beyond them the data sheet is of another GPU, which is said."""
    kept, words = {}, []
    for name, share in shares.items():
        kind = KINDS[name]
        kept[name] = min(max(share, kind.lowest), kind.highest)
        beyond = "" if kept[name] == share else f", taken as {kept[name]:.0%}: is it {cluster.name}?"
        words.append(f"{_WORDS[name]} at {share:.0%} of the data sheet{beyond}")
    return replace(typical, **kept), "; ".join(words)


def _not_told(name: str, shares: dict[str, float]) -> str:
    missing = [kind.what for which, kind in KINDS.items() if which not in shares]
    return (
        f"{name} does not hold these shares and amounts, so the plan takes those typical of other machines: the "
        f"share or amount {', '.join(missing)}."
    )


def _shapes(products: Sequence[ProductRate]) -> str:
    """The three that took longest."""
    longest = sorted(products, key=lambda one: -one.seconds)[:3]
    return ", ".join(
        f"{one.count:,} of {one.shape[1]:,} x {one.shape[2]:,} x {one.shape[3]:,} at {one.flops_per_s / 1e12:.0f} "
        "TFLOP/s"
        for one in longest
    )


def _call(one: CallRate) -> str:
    return (
        f"{one.count:,} calls of {one.operation} among {one.group_size}, {one.size_bytes / 1e6:,.0f} MB, the shortest "
        f"{one.shortest_s * 1e3:.3g} ms: {one.bus_bytes_per_s / 1e9:.0f} GB/s a rank"
    )
