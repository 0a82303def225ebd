"""What a rank shares with the notebook that calls it: its folder, its import path, its environment, its own modules.

Ranks stay up between calls, while the learner changes folders, sets variables and edits the module beside the notebook.
Each call therefore compares, and tells the ranks what is new.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from course_lib.cluster.base.backends import shared_nccl_env
from course_lib.cluster.base.process_group import RankConfig
from course_lib.cluster.failures.rank_status import RECORDER_SIZE
from course_lib.cluster.links.links import Shape

__all__ = ["Context", "apply", "context_here"]

_NOT_OWN = tuple(
    {str(Path(path).resolve()) for path in sysconfig.get_paths().values()} | {str(Path(__file__).resolve().parents[2])}
)
# How many modules there were, and which are the user's.
_own_modules: tuple[int, tuple[tuple[str, str], ...]] = (0, ())
_loaded: dict[str, int] = {}  # in a rank: the user's modules, by the state of the file that they were loaded from


@dataclass(frozen=True)
class Context:
    cwd: str
    sys_path: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    modules: tuple[tuple[str, int], ...] = ()  # the user's own, with the time of their file's last change in ns
    shape: Shape | None = None  # of links and ranks, where the learner gave them one


def context_here() -> Context:
    """The context of this process, now."""
    modules = []
    for name, filename in _find_own_modules():
        try:
            modules.append((name, os.stat(filename).st_mtime_ns))
        except OSError:
            continue  # the file has gone; what was loaded from it stays
    return Context(os.getcwd(), tuple(sys.path), tuple(os.environ.items()), tuple(modules))


def apply(context: Context, config: RankConfig) -> None:
    """In a rank: take over the context, and the settings of this rank on top. Changed modules are loaded anew."""
    os.environ.clear()
    os.environ.update(context.env)
    os.environ.update(_env_of(config))
    sys.path[:] = context.sys_path
    os.chdir(context.cwd)
    for name, changed_ns in context.modules:
        if _loaded.get(name, changed_ns) != changed_ns:
            sys.modules.pop(name, None)
        _loaded[name] = changed_ns


def _find_own_modules() -> tuple[tuple[str, str], ...]:
    """Modules that are neither Python's, nor installed, nor the course's. Looked for again when more are loaded."""
    global _own_modules
    if _own_modules[0] != len(sys.modules):
        found = []
        for name, module in list(sys.modules.items()):
            filename = getattr(module, "__file__", None)
            if filename and name != "__main__" and not filename.startswith(_NOT_OWN):
                found.append((name, filename))
        _own_modules = (len(sys.modules), tuple(found))
    return _own_modules[1]


def _env_of(config: RankConfig) -> dict[str, str]:
    return {
        **_env_of_nccl(config),
        "RANK": str(config.rank),
        "LOCAL_RANK": str(config.local_rank),
        "WORLD_SIZE": str(config.world_size),
        "LOCAL_WORLD_SIZE": str(config.local_size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "0",  # replaced where the caller hosts a store for init_process_group in the cell
        "GLOO_SOCKET_IFNAME": _loopback(),
        "NCCL_SOCKET_IFNAME": _loopback(),
        "TORCH_FR_BUFFER_SIZE": str(RECORDER_SIZE),  # the flight recorder: which collective is each rank in
        "TORCH_DISTRIBUTED_DEBUG": "DETAIL" if config.debug else "OFF",
        "OMP_NUM_THREADS": str(config.num_threads),
        **config.env,
    }


def _env_of_nccl(config: RankConfig) -> dict[str, str]:
    """What a rank on a GPU needs besides. Groups that are made later read it as well, so it stands in every context."""
    if config.rank_device.backend not in ("nccl", "nccl-shared"):
        return {}
    quiet = {"TORCH_NCCL_SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING": "false"}  # of each rank's first message
    if config.rank_device.backend == "nccl":
        return quiet
    import torch

    return {**quiet, **shared_nccl_env(config.rank, torch.cuda.nccl.version())}


def _loopback() -> str:
    import sys

    return "lo0" if sys.platform == "darwin" else "lo"
