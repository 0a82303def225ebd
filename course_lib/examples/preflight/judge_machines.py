"""What is odd about machines: who is there, versions, variables, memory, limits, clocks, GPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .report import COULD_NOT, LOOK, OK, Finding

__all__ = ["judge_clocks", "judge_gpus", "judge_machines"]

Facts = Mapping[str, Any]

_FOR_A_SEARCH = (
    "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_IB_DISABLE", "NCCL_ALGO", "NCCL_PROTO", "TORCH_NCCL_BLOCKING_WAIT",
    "TORCH_DISTRIBUTED_DEBUG",
)  # fmt: skip
_GIB = 2**30
_LEAST_SHM_BYTES, _LEAST_OPEN_FILES, _HOTTEST_C = _GIB, 4096, 85
_MOST_SKEW_S = 0.050
_SLOWED = {  # bits of clocks_event_reasons.active; NVML's nvmlClocksEventReason...
    0x08: "slowed down by the hardware",
    0x20: "slowed down for its heat (software)",
    0x40: "slowed down for its heat (hardware)",
    0x80: "slowed down by the power supply",
}


def judge_machines(facts: Sequence[Facts], node_of: Sequence[int]) -> list[Finding]:
    """From the facts of every rank, in their order, and the node that each sits on."""
    firsts = [facts[list(node_of).index(node)] for node in sorted(set(node_of))]
    return [
        _ranks(facts, node_of),
        _versions(facts),
        _variables(facts),
        _memory(firsts),
        _shared_memory(firsts),
        _open_files(facts),
        _locked_memory(facts, firsts),
    ]


def _ranks(facts: Sequence[Facts], node_of: Sequence[int]) -> Finding:
    counts = {node: list(node_of).count(node) for node in sorted(set(node_of))}
    hosts = {node: facts[list(node_of).index(node)]["host"] for node in counts}
    text = ", ".join(f"{hosts[node]}: {count} rank{'s' * (count > 1)}" for node, count in counts.items())
    devices = {one["device"] for one in facts}
    if len(set(counts.values())) > 1:
        return Finding("ranks", LOOK, f"not as many on every node: {text}")
    if len(devices) > 1:
        return Finding("ranks", LOOK, f"different devices, {_who(facts, lambda one: one['device'])[0]}: {text}")
    if len(set(hosts.values())) < len(hosts):
        return Finding("ranks", LOOK, f"two nodes are the same host, and may fight for its GPUs: {text}")
    device = devices.pop()
    if device != "cpu" and facts[0]["measured_on"] == "cpu":
        return Finding("ranks", OK, f"{text}, on cpu, as asked; their GPUs ({device}) were left alone")
    return Finding("ranks", OK, f"{text}, on {device}")


def _versions(facts: Sequence[Facts]) -> Finding:
    names = facts[0]["versions"]
    odd = {name: _who(facts, lambda one, name=name: one["versions"][name]) for name in names}  # type: ignore[misc]
    differing = [f"{name} is {text}" for name, (text, count) in odd.items() if count > 1]
    if differing:
        return Finding("versions", LOOK, f"not the same everywhere: {'; '.join(differing)}")
    return Finding("versions", OK, ", ".join(f"{name} {value}" for name, value in names.items()))


def _variables(facts: Sequence[Facts]) -> Finding:
    names = sorted({name for one in facts for name in one["variables"]})
    odd = {name: _who(facts, lambda one, name=name: one["variables"].get(name, "unset")) for name in names}  # type: ignore[misc]
    differing = [f"{name} is {text}" for name, (text, count) in odd.items() if count > 1]
    if differing:
        return Finding("variables", LOOK, f"not the same everywhere: {'; '.join(differing)}")
    left = [name for name in names if name in _FOR_A_SEARCH and odd[name][0] not in ("0", "OFF")]
    if left:
        return Finding(
            "variables", LOOK, f"{', '.join(left)}: good for a search, and costly in production; take it out"
        )
    return Finding("variables", OK, ", ".join(f"{name}={odd[name][0]}" for name in names) or "none are set")


def _who(facts: Sequence[Facts], value_of: Any) -> tuple[str, int]:
    """Who has which value, in words, and how many values there are."""
    by_value: dict[str, list[int]] = {}
    for rank, one in enumerate(facts):
        by_value.setdefault(str(value_of(one)), []).append(rank)
    if len(by_value) == 1:
        return next(iter(by_value)), 1
    return " and ".join(f"{value} on {ranks_text(ranks)}" for value, ranks in by_value.items()), len(by_value)


def ranks_text(ranks: Sequence[int], most: int = 8) -> str:
    """ "rank 3", "ranks 0, 1 and 5", or their number where there are many."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) > most:
        return f"{len(ranks)} ranks, {ranks[0]} the first of them"
    return f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"


def _memory(nodes: Sequence[Facts]) -> Finding:
    sizes = [one["memory_bytes"] for one in nodes]
    if None in sizes:
        return Finding("memory", COULD_NOT, "this system has no /proc/meminfo")
    text = _each(nodes, lambda one: f"{one['free_bytes'] / _GIB:.0f} of {one['memory_bytes'] / _GIB:.0f} GiB free")
    if min(sizes) < 0.9 * max(sizes):
        return Finding("memory", LOOK, f"nodes of different size: {text}")
    if any(one["free_bytes"] < 0.5 * one["memory_bytes"] for one in nodes):
        return Finding("memory", LOOK, f"more than half of it is taken before the job begins: {text}")
    return Finding("memory", OK, text)


def _shared_memory(nodes: Sequence[Facts]) -> Finding:
    if any(one["shm_bytes"] is None for one in nodes):
        return Finding("/dev/shm", COULD_NOT, "this system has none")
    text = _each(nodes, lambda one: f"{one['shm_bytes'] / _GIB:.2f} GiB")
    if any(one["shm_bytes"] < _LEAST_SHM_BYTES for one in nodes):
        more = "NCCL and the workers of a DataLoader want more than 1 GiB; docker run --shm-size, or a volume"
        return Finding("/dev/shm", LOOK, f"small: {text}. {more}")
    return Finding("/dev/shm", OK, text)


def _open_files(facts: Sequence[Facts]) -> Finding:
    limits = [one["open_files"] for one in facts]
    if None in limits:
        return Finding("open files", COULD_NOT, "this system has no such limit")
    least = min((limit for limit in limits if limit >= 0), default=None)
    if least is not None and least < _LEAST_OPEN_FILES:
        return Finding("open files", LOOK, f"only {least}; sockets and workers need more: ulimit -n 65536")
    return Finding("open files", OK, "no limit" if least is None else f"up to {least:,}")


def _locked_memory(facts: Sequence[Facts], nodes: Sequence[Facts]) -> Finding:
    if not any(one["has_rdma"] for one in nodes):
        return Finding("locked memory", COULD_NOT, "no InfiniBand or RoCE card here, which is what needs it")
    limits = {one["locked_memory"] for one in facts}
    if limits != {-1}:
        return Finding("locked memory", LOOK, "limited, and RDMA locks a lot of it: ulimit -l unlimited")
    return Finding("locked memory", OK, "no limit")


def _each(nodes: Sequence[Facts], text_of: Any) -> str:
    """One text for all nodes where they agree, else one for each."""
    texts = [text_of(one) for one in nodes]
    return (
        texts[0] if len(set(texts)) == 1 else ", ".join(f"{n['host']} {t}" for n, t in zip(nodes, texts, strict=True))
    )


def judge_clocks(offsets: Mapping[int, tuple[float, float]], hosts: Sequence[str]) -> Finding:
    """From each node's clock beside the first node's: how far ahead, and how sure that is, in seconds."""
    if len(set(hosts)) < 2:
        return Finding("clocks", COULD_NOT, "one machine has one clock")
    odd = {node: skew for node, skew in offsets.items() if abs(skew[0]) - skew[1] > _MOST_SKEW_S}
    if odd:
        text = "; ".join(
            f"{hosts[node]} is {abs(ahead_s):.3f} s {'ahead' if ahead_s > 0 else 'behind'}"
            for node, (ahead_s, _) in odd.items()
        )
        return Finding("clocks", LOOK, f"{text}, beside {hosts[0]}: logs cannot be put in order; is NTP running?")
    most_s = max(abs(ahead_s) for ahead_s, _ in offsets.values())
    unsure_s = max(unsure_s for _, unsure_s in offsets.values())
    return Finding("clocks", OK, f"{1e3 * most_s:.1f} ms apart at most, give or take {1e3 * unsure_s:.1f} ms")


def judge_gpus(nodes: Sequence[Facts]) -> list[Finding]:
    """From the facts of each node's first rank."""
    if all(not one["gpus"] for one in nodes):
        return [Finding("GPUs", COULD_NOT, "no GPU that nvidia-smi knows of")]
    found = [_health(nodes), _direct(nodes)]
    if any(one["xid"] is None for one in nodes):
        found.append(Finding("driver's errors", COULD_NOT, "the kernel's messages may not be read; ask for 'dmesg'"))
    else:
        lines = [f"{one['host']}: {line}" for one in nodes for line in one["xid"]]
        text = f"{len(lines)} Xid errors, the last one: {lines[-1]}" if lines else "no Xid error since the start"
        found.append(Finding("driver's errors", LOOK if lines else OK, text))
    return found


def _health(nodes: Sequence[Facts]) -> Finding:
    odd, hottest, count = [], 0, 0
    for one in nodes:
        if not one["gpus"]:
            odd.append(f"{one['host']} has no GPU that nvidia-smi knows of")
        for gpu in one["gpus"] or ():
            count += 1
            hottest = max(hottest, gpu["temperature_c"] or 0)
            odd += [f"GPU {gpu['index']} of {one['host']}: {text}" for text in _ailments(gpu)]
    if odd:
        return Finding("GPUs", LOOK, "; ".join(odd))
    return Finding("GPUs", OK, f"{count}, {hottest} degrees at most, no errors in memory, none slowed down")


def _ailments(gpu: Mapping[str, Any]) -> list[str]:
    found = [text for bit, text in _SLOWED.items() if (gpu["reasons"] or 0) & bit]
    if gpu["uncorrected"]:
        found.append(f"{gpu['uncorrected']} errors in memory that could not be corrected")
    if (gpu["temperature_c"] or 0) > _HOTTEST_C:
        found.append(f"{gpu['temperature_c']} degrees")
    if (gpu["link_width"] or 0) < (gpu["highest_link_width"] or 0):
        found.append(f"PCIe with {gpu['link_width']} lanes of {gpu['highest_link_width']}")
    return found


def _direct(nodes: Sequence[Facts]) -> Finding:
    if all(one["unreachable"] is None for one in nodes):
        return Finding("GPU to GPU", COULD_NOT, "fewer than two GPUs on a node")
    odd = [f"{a} and {b} of {one['host']}" for one in nodes for a, b in one["unreachable"] or ()]
    if odd:
        return Finding("GPU to GPU", LOOK, f"cannot read each other's memory: {', '.join(odd)}")
    return Finding("GPU to GPU", OK, "each reads each other's memory on its node")
