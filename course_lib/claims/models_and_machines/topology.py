"""The trial of what is said about NVLink and PCIe: the same two GPUs, by their direct path and through the host."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from statistics import median

import torch
import torch.distributed as dist

from course_lib.claims.court.evidence import Evidence, Ranks, blocked, tries
from course_lib.cluster.api.cluster import Cluster
from course_lib.cluster.base.rank import Rank
from course_lib.cluster.nodes.found import on_this_machine
from course_lib.devices import machine
from course_lib.meter import time_text

__all__: list[str] = []

_SMALL_BYTES, _LARGE_BYTES = 1024, 256 * 2**20
_MUCH = 1.5  # times as fast
_THROUGH_THE_HOST = {"NCCL_P2P_DISABLE": "1"}  # NCCL then copies through the host's memory, over PCIe


def _all_reduce_s(me: Rank, size_bytes: int, rounds: int = 20) -> float:
    """Seconds of an all-reduce until its result is there: a median, after some to warm up."""
    numbers, times_s = torch.zeros(size_bytes // 4, device=me.device), []
    for _ in range(rounds + 5):
        dist.barrier()
        began_s = time.perf_counter()
        dist.all_reduce(numbers)
        numbers[0].item()  # a GPU has done with it when a number of it is there
        times_s.append(time.perf_counter() - began_s)
    return median(times_s[5:])


def _times_s(env: Mapping[str, str], sizes_bytes: Sequence[int]) -> dict[int, float]:
    """The slower rank's times, by size. The ranks are new, since NCCL reads its switches when they start."""
    with on_this_machine(), Cluster(2, env=env) as cluster:
        return {size: max(cluster.run(_all_reduce_s, size)) for size in sizes_bytes}


@tries("C11")
def topology_decides_communication_speed(ranks: Ranks) -> Evidence:
    """All-reduces between two GPUs over NVLink, and the same through the host: 256 MiB, and 1 KiB."""
    kind = next((link.kind for link in machine().links if {link.a, link.b} == {0, 1}), "none")
    if kind != "NVLink":
        return blocked(f"the first two GPUs have no NVLink, by which to compare (the driver says {kind!r})")
    sizes_bytes = (_SMALL_BYTES, _LARGE_BYTES)
    direct_s, host_s = (_times_s(env, sizes_bytes) for env in ({}, _THROUGH_THE_HOST))
    gain = {size: host_s[size] / direct_s[size] for size in direct_s}
    much = {size: times > _MUCH for size, times in gain.items()}
    return Evidence(
        ("holds" if much[_SMALL_BYTES] else "holds with conditions") if much[_LARGE_BYTES] else "false",
        {
            "much faster over NVLink, 256 MiB": much[_LARGE_BYTES],
            "and 1 KiB": much[_SMALL_BYTES],
        },
        timings={
            f"NVLink and through the host, {name}": f"{time_text(direct_s[size])} {time_text(host_s[size])}"
            for name, size in (("256 MiB", _LARGE_BYTES), ("1 KiB", _SMALL_BYTES))
        },
        because="the narrowest part of the path decides how long a large message takes. A small message takes as long "
        "as a call, over either path",
        turns_if="messages had a few kilobytes, where calls decide, or were hidden behind computing, where nothing "
        "waits for them"
        if much[_LARGE_BYTES]
        else "NCCL used another path than the PCIe bus when the setting forbids the direct path",
    )
