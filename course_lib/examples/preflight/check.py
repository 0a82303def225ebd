"""The whole check in its order, and the command line."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from . import measure
from .judge_machines import judge_clocks, judge_gpus, judge_machines
from .judge_speed import WITHIN_GB_PER_S, judge_links, judge_products, judge_reduce
from .machine import QUIET, facts_of_this_process
from .measure import Place
from .report import Report

__all__ = ["examine", "exit_code", "main", "parse_arguments"]


def parse_arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """The settings; what cannot work ends the program with a sentence, and exit code 2."""
    parser = argparse.ArgumentParser(prog="preflight", description="Look a cluster over before a job runs on it.")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--machine", choices=sorted(WITHIN_GB_PER_S), help="whose NVLink to expect within a node")
    parser.add_argument("--within-gb", type=_above_0, help="GB/s to expect of a link within a node, in each direction")
    parser.add_argument("--between-gbit", type=_above_0, help="Gbit/s that the network card of each rank is sold as")
    parser.add_argument("--message-mb", type=_above_0, help="size of large messages; 4, or 256 on GPUs")
    parser.add_argument("--strict", action="store_true", help="exit code 1 under torchrun, too, if something is odd")
    parser.add_argument("--json", metavar="FILE", type=Path, help="where to keep the findings")
    return parser.parse_args(words)


def _above_0(word: str) -> float:
    try:
        number = float(word)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise argparse.ArgumentTypeError(f"{word!r} does not work: it is a number above 0, such as 400")
    return number


def examine(args: argparse.Namespace, device: torch.device, node: str | None = None) -> tuple[Report, dict[str, Any]]:
    """Everything, on all ranks of the process group together: the report, and what was measured, the same on all.

    ``node`` names the node that this rank counts as part of; without it, it is its host and torchrun's agent there.
    """
    rank, size = dist.get_rank(), dist.get_world_size()
    place = Place(rank, (0,) * size, device)
    mine = facts_of_this_process(is_first_on_node=False)
    names = place.from_all(node or f"{mine['host']} {mine['node']}")
    in_order = list(dict.fromkeys(names))
    place = Place(rank, tuple(in_order.index(name) for name in names), device)
    firsts = [ranks[0] for ranks in place.nodes]
    facts = place.from_all(facts_of_this_process(is_first_on_node=rank in firsts) | {"measured_on": device.type})

    size_bytes = int(1e6 * (args.message_mb or (256 if device.type == "cuda" else 4)))
    product = (8192, 50) if device.type == "cuda" else (128, 200)
    measured = {
        "node_of": place.node_of,
        "flops_per_s": measure.product_rates(place, *product),
        "clocks": measure.clock_offsets(place),
        "links": measure.links(place, measure.pairs_to_measure(place.node_of), size_bytes),
        "all_reduce": measure.reduce_rates(place, size_bytes),
    }
    return Report(tuple(_judge(args, facts, measured))), measured


def _judge(args: argparse.Namespace, facts: Sequence[Any], measured: dict[str, Any]) -> list[Any]:
    node_of = measured["node_of"]
    nodes = [facts[node_of.index(node)] for node in sorted(set(node_of))]
    within = args.within_gb or WITHIN_GB_PER_S.get(args.machine or "")
    sheet = {
        "within": within and within * 1e9,
        "between": args.between_gbit and args.between_gbit * 1e9 / 8,
    }
    return [
        *judge_machines(facts, node_of),
        judge_clocks(measured["clocks"], [one["host"] for one in nodes]),
        *judge_gpus(nodes),
        judge_products(measured["flops_per_s"]),
        *judge_links(measured["links"], node_of, sheet),
        *judge_reduce(measured["all_reduce"], sheet, len(node_of)),
    ]


def exit_code(report: Report, *, is_strict: bool, under_torchrun: bool) -> int:
    """1 where something is odd; but torchrun would call its ranks failed, and begin again, so there only if asked."""
    return report.exit_code if is_strict or not under_torchrun else 0


def main() -> None:
    """Join the others, look, and let rank 0 tell."""
    args = parse_arguments()
    device = _begin(args.device)
    report, _ = examine(args, device)
    code = exit_code(report, is_strict=args.strict, under_torchrun=dist.is_torchelastic_launched())
    if dist.get_rank() == 0:
        print(report, flush=True)
        if args.json is not None and not _keep(report, args.json) and not dist.is_torchelastic_launched():
            code = 1
    dist.barrier()
    dist.destroy_process_group()
    sys.exit(code)


def _keep(report: Report, path: Path) -> bool:
    """Write the findings to a file; where that cannot be, say so: the table has been printed, and nothing is lost."""
    try:
        path.write_text(report.to_json())
        return True
    except OSError as error:
        print(f"--json: {path} could not be written: {error.strerror}. The table above is all.", file=sys.stderr)
        return False


def _begin(device_type: str) -> torch.device:
    """Take this process's device and join the group that the environment tells of; without one, a group of one."""
    size = _world_size()
    local_rank = int(os.environ.get("LOCAL_RANK", 0))
    local_size = int(os.environ.get("LOCAL_WORLD_SIZE", local_rank + 1))
    num_gpus = torch.cuda.device_count()
    if num_gpus < local_size and (device_type == "cuda" or (device_type == "auto" and num_gpus)):
        raise SystemExit(
            f"{local_size} rank{'s' * (local_size > 1)} on a machine with {num_gpus} GPU{'s' * (num_gpus != 1)}; each "
            "needs one: start fewer, or say --device cpu"
        )
    try:
        store, rank, _ = next(iter(dist.rendezvous("env://"))) if size else (dist.HashStore(), 0, 1)
        on_gpus = device_type != "cpu" and _all_have_gpus(store, rank, size or 1, num_gpus > 0)
        device = torch.device("cuda", local_rank) if on_gpus else torch.device("cpu")
        options: dict[str, Any] = {"store": store, "rank": rank, "world_size": size or 1}
        if on_gpus:
            torch.cuda.set_device(device)
            os.environ.setdefault(QUIET, "false")  # else every rank warns at its first message to another
            options["device_id"] = device
        else:
            torch.set_num_threads(1)
        dist.init_process_group("cpu:gloo,cuda:nccl" if on_gpus else "gloo", **options)
    except (RuntimeError, ValueError) as error:
        why = str(error).strip().splitlines()[0]
        raise SystemExit(
            f"The ranks could not meet: {why}\nLook at MASTER_ADDR, at GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME, and "
            "whether the port is open between the machines."
        ) from error
    return device


def _world_size() -> int:
    """Ranks in all, as torchrun says in the environment; 0 where nobody has set anything there."""
    names = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    missing = [name for name in names if name not in os.environ]
    if "RANK" in missing and "WORLD_SIZE" in missing:
        return 0
    if missing:
        raise SystemExit(f"{' and '.join(missing)} not set, others are: torchrun sets {', '.join(names)}")
    return int(os.environ["WORLD_SIZE"])


def _all_have_gpus(store: dist.Store, rank: int, size: int, has_gpus: bool) -> bool:
    """Whether every rank sees GPUs. One that sees none would keep the others waiting in NCCL: then all take the CPU."""
    store.set(f"preflight/gpus/{rank}", str(int(has_gpus)))
    return all(store.get(f"preflight/gpus/{other}") == b"1" for other in range(size))
