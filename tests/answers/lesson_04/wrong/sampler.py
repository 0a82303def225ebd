"""04.sampler: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from typing import Any

import torch

from course_lib.learn.exercises.lesson_04.sampler import _BLOCKS, _IN_ORDER, _NO_EPOCH, _RANKS_SEED, _sampler


def _seeds_everything(num_items: int, rank: int, world_size: int, epoch: int, seed: int) -> list[int]:
    torch.manual_seed(seed + epoch)
    return _sampler(own_generator=False)(num_items, rank, world_size, epoch, seed)  # type: ignore[return-value]


def _by_the_library(num_items: int, rank: int, world_size: int, epoch: int, seed: int) -> list[int]:
    from torch.utils.data.distributed import DistributedSampler

    sampler: Any = DistributedSampler(range(num_items), world_size, rank, seed=seed)  # type: ignore[arg-type]
    sampler.set_epoch(epoch)
    return list(sampler)


EXERCISE = "04.sampler"
EXAMPLES: dict[str, Any] = {
    "global-random-numbers": _sampler(own_generator=False),
    "seeds-everything": _seeds_everything,
    "a-seed-for-each-rank": _RANKS_SEED,
    "the-same-in-every-epoch": _NO_EPOCH,
    "not-shuffled": _IN_ORDER,
    "in-blocks": _BLOCKS,
}


FORBIDDEN = _by_the_library
