"""Which back ends a step can try here: gloo on a machine without a GPU; gloo and, where it works, NCCL on one GPU that
ranks share; NCCL where each rank has a GPU of its own.
"""

from __future__ import annotations

from course_lib.authoring.bench.gpu.task import NOT_RUN, BenchTask
from course_lib.cluster.api.cluster import Cluster
from course_lib.cluster.base.rank import Rank

__all__ = ["NCCL", "backends_for"]

NCCL = ("nccl", "nccl-shared")
_PROBE_LIMIT_S = 30.0


def backends_for(task: BenchTask, num_ranks: int) -> list[str]:
    """The back ends for so many ranks. NCCL on a shared GPU is tried first, and told as not run where it fails."""
    if not task.on_gpu:
        return ["gloo"]
    if task.num_gpus >= num_ranks:
        return ["nccl"]
    why = _why_not_shared(num_ranks)
    if not why:
        return ["gloo", "nccl-shared"]
    task.tell(f"NCCL with {num_ranks} ranks on {task.num_gpus} GPU", NOT_RUN, why)
    return ["gloo"]


def _why_not_shared(num_ranks: int) -> str:
    """Why NCCL does not take several ranks on one GPU here; empty where it does."""
    try:
        with Cluster(num_ranks, backend="nccl-shared", timeout_s=_PROBE_LIMIT_S) as cluster:
            sums = list(cluster.call(_sum, show=False))
    except Exception as error:
        return f"NCCL shares no GPU here: {type(error).__name__}: {error}"
    return "" if sums == [num_ranks] * num_ranks else f"NCCL on a shared GPU adds up wrongly: {sums}"


def _sum(me: Rank) -> float:
    import torch
    import torch.distributed as dist

    one = torch.ones(1, device=me.device)
    dist.all_reduce(one)
    return one.item()
