"""00.share: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from typing import Any

import torch


def _by_the_library(num_items: int, rank: int, world_size: int) -> range:
    part = torch.arange(num_items).tensor_split(world_size)[rank].tolist()
    return range(part[0], part[-1] + 1) if part else range(0)


def _extras_in_the_middle(num_items: int, rank: int, world_size: int) -> range:
    return range(rank * num_items // world_size, (rank + 1) * num_items // world_size)


def _in_a_list(num_items: int, rank: int, world_size: int) -> list[int]:
    base, extra = divmod(num_items, world_size)
    start = rank * base + min(rank, extra)
    return [start + i for i in range(base + (rank < extra))]


EXERCISE = "00.share"
EXAMPLES: dict[str, Any] = {
    "extras-elsewhere": _extras_in_the_middle,
    "list-for-range": _in_a_list,
}


FORBIDDEN = _by_the_library
