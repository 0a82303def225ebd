"""Do ranks really run: the back ends that PyTorch holds, and two real ranks that sum a number over each."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from course_lib.base.paths import is_installed
from course_lib.devices import Machine
from course_lib.doctor.finding import Finding

if TYPE_CHECKING:
    from course_lib.cluster.base.rank import Rank

__all__ = ["check_all_reduce", "check_backends"]

_LIMIT_S = 30.0
_AGAIN = {  # by whether the course is an installed package
    False: "Install it again: delete .venv and run ./course.",
    True: f"Install it again: {sys.executable} -m pip install --force-reinstall torch",
}


def check_backends(here: Machine) -> Finding:
    """The back ends that this torch holds."""
    try:
        import torch.distributed as dist
    except Exception as error:  # a missing system library is an OSError, a broken install almost anything
        lines = str(error).splitlines() or [""]
        detail = f"PyTorch cannot be imported: {type(error).__name__}: {lines[0]}"
        return Finding("back ends", "blocked", detail, _AGAIN[is_installed()])
    if not dist.is_available() or not dist.is_gloo_available():
        return Finding("back ends", "blocked", "no gloo", "Install an official build of PyTorch: they hold gloo.")
    if len(here.devices) > 1 and not dist.is_nccl_available():
        return Finding("back ends", "warning", "gloo, no NCCL", "GPUs will talk through main memory, slowly.")
    return Finding("back ends", "ok", "gloo, nccl" if dist.is_nccl_available() else "gloo")


def check_all_reduce(backend: str) -> Finding:
    """Two real ranks sum a number: the shortest proof that ranks start, meet and talk."""
    name = f"all-reduce, {backend}"
    try:
        from course_lib.cluster.api.cluster import Cluster
        from course_lib.cluster.nodes.found import on_this_machine
    except ImportError as error:
        return Finding(name, "blocked", f"the cluster cannot be loaded ({error})", "Install the course again.")
    try:
        with on_this_machine(), Cluster(2, timeout_s=_LIMIT_S, backend=backend) as cluster:
            run = cluster.run(_sum_of_ranks)
            sums, devices = zip(*run, strict=True)
    except Exception as error:
        lines = str(error).strip().splitlines() or [""]
        return Finding(name, "blocked", f"{type(error).__name__}: {lines[0]}", _trial_advice(backend))
    if list(sums) != [3.0, 3.0]:
        return Finding(name, "blocked", f"ranks summed 1 + 2 to {list(sums)}", _trial_advice(backend))
    where = " and ".join(dict.fromkeys(devices))
    return Finding(name, "ok", f"2 ranks on {where}, {run.time_s * 1000:.0f} ms")


def _sum_of_ranks(me: Rank) -> tuple[float, str]:
    import torch
    import torch.distributed as dist

    number = torch.tensor([me.rank + 1.0], device=me.device)
    dist.all_reduce(number)
    return number.item(), str(me.device)


def _trial_advice(backend: str) -> str:
    if backend == "nccl":
        return "Set NCCL_DEBUG=INFO and run this again: NCCL then prints what is missing. Gloo works without NCCL."
    return "Ranks meet on 127.0.0.1: see that no firewall or VPN closes it, and that processes may start."
