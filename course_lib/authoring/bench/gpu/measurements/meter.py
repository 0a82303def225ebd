"""Step ``meter``: what the communication meter costs a step of DDP that it watches, as in ``course bench meter``.

Then what it counts, held against NCCL's own log of what it was asked for. NCCL may hang where ranks share a GPU: gloo's
numbers come first, and whatever hangs leaves time to what comes behind it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from course_lib.authoring.bench.gpu.measurements.backends import NCCL, backends_for
from course_lib.authoring.bench.gpu.measurements.nccl_log import asked_of_nccl, seen_by_meter, settings
from course_lib.authoring.bench.gpu.task import NOT_RUN, BenchTask
from course_lib.authoring.bench.meter import step_times
from course_lib.cluster.api.cluster import Cluster
from course_lib.cluster.base.rank import Rank
from course_lib.meter.communication.communication import metered

__all__ = ["run"]

_NUM_RANKS = 2
_LEAST_BYTES = 2000  # what is smaller may be a barrier, or the course's own
_LIMIT_S = 120.0
_PROMISED_COST = 1.05


def run(task: BenchTask) -> None:
    """The meter's cost on every back end; counts by NCCL, where it can be used."""
    backends = backends_for(task, _NUM_RANKS)
    for backend in backends:
        with task.part(f"what the meter costs, {backend}"):
            _add_cost(task, backend)
    for backend in [name for name in backends if name in NCCL]:
        for name, function in {"each collective": each_collective, "a step of DDP": ddp_step}.items():
            with task.part(f"meter and NCCL on {name}: the trial itself, {backend}"):
                _compare(task, f"meter and NCCL count the same, {name}, {backend}", backend, function)
    if not any(name in NCCL for name in backends) and task.has_gpus("meter and NCCL count the same", 1):
        needs = f"needs NCCL between {_NUM_RANKS} ranks: {_NUM_RANKS} GPUs, or one that it shares"
        task.tell("meter and NCCL count the same", NOT_RUN, needs)


def _add_cost(task: BenchTask, backend: str) -> None:
    with Cluster(_NUM_RANKS, backend=backend, timeout_s=task.limit_s(_LIMIT_S)) as cluster:
        pairs = cluster.call(step_times, (task.rounds,), show=False)[0]
    task.table.add(f"DDP step, meter off, {backend}", [1e3 * off for off, _ in pairs], "ms")
    task.table.add(f"DDP step, meter on, {backend}", [1e3 * on for _, on in pairs], "ms")
    ratios = [on / off for off, on in pairs]
    task.table.add(f"on / off, {backend}", ratios, "x", target=task.target(_PROMISED_COST))


def _compare(task: BenchTask, name: str, backend: str, function: Callable[[Rank], None]) -> None:
    with tempfile.TemporaryDirectory(prefix="course-nccl-") as folder:
        env = settings(Path(folder))
        limit_s = task.limit_s(_LIMIT_S)
        with Cluster(_NUM_RANKS, backend=backend, timeout_s=limit_s, env=env) as cluster:
            communication = metered(cluster, function).communication
        texts = [path.read_text(errors="replace") for path in sorted(Path(folder).glob("nccl.*.log"))]
    assert communication is not None
    asked = asked_of_nccl((line for text in texts for line in text.splitlines()), least_bytes=_LEAST_BYTES)
    seen = seen_by_meter(communication.calls, least_bytes=_LEAST_BYTES)
    if not asked:
        task.tell(
            name,
            NOT_RUN,
            f"NCCL wrote no call into its {len(texts)} logs; the meter saw {sum(seen.values())}",
        )
        return
    only_nccl, only_meter = asked - seen, seen - asked
    text = f"{sum(asked.values())} calls by NCCL, {sum(seen.values())} by the meter"
    text += f"; NCCL alone: {dict(only_nccl)}; the meter alone: {dict(only_meter)}"
    task.judge(name, not only_nccl and not only_meter, text)


def each_collective(me: Rank) -> None:
    """One call of each, with sizes of their own, so that none can be taken for another."""
    import torch
    import torch.distributed as dist

    from course_lib.cluster.base.point_to_point import exchange, recv, send

    def of(num: int) -> torch.Tensor:
        return torch.ones(num, device=me.device)

    n, after, before = me.world_size, (me.rank + 1) % me.world_size, (me.rank - 1) % me.world_size
    dist.all_reduce(of(1001))
    dist.all_gather_into_tensor(of(1003 * n), of(1003))
    dist.reduce_scatter_tensor(of(1005), of(1005 * n))
    dist.broadcast(of(1007), 0)
    dist.reduce(of(1009), 0)
    dist.all_reduce(of(1011).to(torch.bfloat16))
    exchange([send(of(1013), after), recv(of(1013), before)])


def ddp_step(me: Rank) -> None:
    """Backward of the course's DDP, and of PyTorch's."""
    import torch
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel as TorchDDP

    from course_lib.parallel.data import DistributedDataParallel

    for wrap in (lambda model: DistributedDataParallel(me, model), TorchDDP):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1024)).to(me.device)
        wrapped = wrap(model)
        wrapped(torch.ones(8, 1024, device=me.device)).sum().backward()
