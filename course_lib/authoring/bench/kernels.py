"""``course bench kernels``: from the click to a kernel and to its first ranks, as forks of one process and by itself.

The two take turns. A click is what JupyterLab's server does for one: start the kernel, wait until it answers. The first
cell imports what lesson 04a imports, and starts four ranks. Memory is the proportional share of all processes that the
notebooks have brought.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from course_lib.authoring.bench.options import bench_parser, open_table
from course_lib.lab.forks import LabForks, LabProvisioner, are_wanted

__all__ = ["main"]

_RANKS = 4
_NOTEBOOKS = 3
_LIMIT_S = 600
_FIRST_CELL = f"""
import torch
from course_lib import shared_cluster
from course_lib.data import digits
from course_lib.plot import lines
from course_lib.widgets import BucketExplorer

digits()
layer = torch.nn.Linear(2, 2)
torch.optim.AdamW(layer.parameters()).step()  # the first step of an optimizer imports much more of torch
shared_cluster({_RANKS}).call(lambda me: me.rank, show=False);
"""
# The most that is promised, as a ratio of both ways in the same run.
_MOST = {"kernel": 0.6, "ranks": 0.3, "memory of one": 0.5, "memory of more": 0.7}


@dataclass
class _Samples:
    """Of one way to begin."""

    kernel_s: list[float] = field(default_factory=list)
    ranks_s: list[float] = field(default_factory=list)
    one_mb: list[float] = field(default_factory=list)
    more_mb: list[float] = field(default_factory=list)


def main(arguments: list[str]) -> int:
    options = bench_parser("kernels", __doc__, rounds=5, of="samples of each start").parse_args(arguments)
    if not are_wanted():
        print("course bench kernels: here each kernel starts by itself, so there is nothing to compare.")
        return 0
    alone, forked = asyncio.run(_measured(options.rounds))
    with open_table(options) as table:
        words = f"the first cell of 04a, with {_RANKS} ranks"
        pairs = [
            ("a kernel that answers", "kernel_s", "s", "kernel"),
            (words, "ranks_s", "s", "ranks"),
            ("memory, one notebook", "one_mb", "MB", "memory of one"),
            (f"memory, {_NOTEBOOKS} notebooks", "more_mb", "MB", "memory of more"),
        ]
        for what, name, unit, target in pairs:
            beside = getattr(alone, name)
            table.add_beside(what, getattr(forked, name), "by itself", beside, unit, target=_MOST[target])
    return 0


async def _measured(rounds: int) -> tuple[_Samples, _Samples]:
    alone, forked = _Samples(), _Samples()
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        for _ in range(rounds):
            LabProvisioner.forks = None
            await _take(alone, Path(folder))
            forks = LabForks()
            LabProvisioner.forks = forks
            try:
                forks.begin()
                while not forks.are_ready:  # JupyterLab's page loads meanwhile
                    await asyncio.sleep(0.05)
                await _take(forked, Path(folder))
            finally:
                forks.close()
                LabProvisioner.forks = None
    return alone, forked


async def _take(samples: _Samples, folder: Path) -> None:
    """One notebook after another is opened, and stays open."""
    from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager

    from course_lib.lab.options import PAGES

    kinds = PAGES["MappingKernelManager"]
    manager = AsyncMappingKernelManager(**kinds, connection_dir=str(folder), root_dir=str(folder))
    async with contextlib.AsyncExitStack() as stack:
        for number in range(_NOTEBOOKS):
            began_s = time.perf_counter()
            client = await stack.enter_async_context(_opened(manager))
            answers_s = time.perf_counter()
            answer = await client._async_execute_interactive(
                _FIRST_CELL, timeout=_LIMIT_S, output_hook=lambda message: None
            )
            if answer["content"]["status"] != "ok":
                raise RuntimeError(f"the first cell failed: {answer['content']}")
            samples.kernel_s.append(answers_s - began_s)
            samples.ranks_s.append(time.perf_counter() - answers_s)
            if number == 0:
                samples.one_mb.append(_share_mb())
        samples.more_mb.append(_share_mb())


@contextlib.asynccontextmanager
async def _opened(manager: Any) -> AsyncIterator[Any]:
    number = await manager.start_kernel()
    client = manager.get_kernel(number).client()
    client.start_channels()
    await client._async_wait_for_ready(timeout=_LIMIT_S)
    yield client
    client.stop_channels()
    await manager.shutdown_kernel(number, now=True)


def _share_mb() -> float:
    """Of all processes below this one, MB: what several share counts for each in part."""
    shares = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            shares.append(process.memory_full_info().pss)
    return sum(shares) / 1e6
