"""The process groups that this process is in, as PyTorch knows them."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["groups_here", "ranks_of"]


def groups_here() -> list[tuple[str, Any]]:
    """The groups that this rank is in, by name."""
    c10d = sys.modules.get("torch.distributed.distributed_c10d")
    return [] if c10d is None else [(name, group) for group, name in list(c10d._world.pg_names.items())]


def ranks_of(group: Any) -> tuple[int, ...]:
    import torch.distributed as dist

    return () if group is None else tuple(dist.get_process_group_ranks(group))
