"""Other ways to start ranks, for comparison: each starts them, all-reduces one number, hands it back, and ends.

None of these packages is a dependency of the course; torch's own launchers are always there.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

__all__ = ["LAUNCHERS"]


def all_reduce_one(rank: int, world_size: int, store: str) -> float:
    """The job: join by a file, sum the ranks, leave."""
    import torch
    import torch.distributed as dist

    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=world_size, timeout=timedelta(seconds=60)
    )
    number = torch.tensor([float(rank)])
    dist.all_reduce(number)
    dist.destroy_process_group()
    return number.item()


def by_spawn(world_size: int) -> None:
    import torch.multiprocessing as mp

    with _store() as store:
        mp.spawn(all_reduce_one, (world_size, store), nprocs=world_size)


def by_torchrun(world_size: int) -> None:
    with _store() as store:
        command = [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node",
            str(world_size),
        ]
        command += [__file__, store]
        subprocess.run(
            command, check=True, capture_output=True, timeout=120, env={**os.environ, "OMP_NUM_THREADS": "1"}
        )


def by_accelerate(world_size: int) -> None:
    from accelerate import notebook_launcher

    with _store() as store:
        notebook_launcher(_in_environment, (store,), num_processes=world_size)


def by_ipyparallel(world_size: int) -> None:
    import ipyparallel

    with _store() as store, ipyparallel.Cluster(n=world_size, log_level=40) as engines:
        view = engines[:]
        pending = [view.client[rank].apply_async(all_reduce_one, rank, world_size, store) for rank in range(world_size)]
        [result.get(60) for result in pending]


def by_torchrunx(world_size: int) -> None:
    import torchrunx

    with _store() as store, contextlib.chdir(Path(store).parent):  # it leaves its logs where it is run
        launcher = torchrunx.Launcher(hostnames=["localhost"], workers_per_host=world_size, backend=None)
        launcher.run(_in_environment, store)


def by_ray(world_size: int) -> None:
    import ray

    ray.init(num_cpus=world_size, include_dashboard=False, configure_logging=False, log_to_driver=False)
    try:
        with _store() as store:
            job = ray.remote(all_reduce_one)
            ray.get([job.remote(rank, world_size, store) for rank in range(world_size)])
    finally:
        ray.shutdown()


def _in_environment(store: str) -> float:
    return all_reduce_one(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), store)


@contextlib.contextmanager
def _store() -> Iterator[str]:
    """A private path for the ranks to meet at."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        yield str(Path(folder) / "store")


LAUNCHERS: dict[str, Callable[[int], None]] = {
    "torch.multiprocessing.spawn": by_spawn,
    "torch.distributed.run (torchrun)": by_torchrun,
    "accelerate": by_accelerate,
    "ipyparallel": by_ipyparallel,
    "torchrunx": by_torchrunx,
    "ray": by_ray,
}

if __name__ == "__main__":
    _in_environment(sys.argv[1])
