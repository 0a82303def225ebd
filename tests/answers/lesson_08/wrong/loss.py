"""08.loss: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from course_lib.cluster.base.rank import Rank
from course_lib.learn.exercises.lesson_08.loss.wrong_answers import own_target, shared_largest, split_loss
from course_lib.parallel.tensor import all_gather_split


def largest_of_all(me: Rank, logits: Tensor) -> Tensor:
    """One largest logit for all positions."""
    top = logits.detach().amax().expand(len(logits)).clone()
    dist.all_reduce(top, op=dist.ReduceOp.MAX)
    return top


def no_largest(me: Rank, logits: Tensor) -> Tensor:
    return torch.zeros_like(logits[:, 0])


def by_remainder(me: Rank, shifted: Tensor, targets: Tensor) -> Tensor:
    return shifted.gather(1, (targets % shifted.size(1))[:, None])[:, 0]


def between(first: int, last: int) -> Callable[[Rank, Tensor, Tensor], Tensor]:
    """The target's logit for places that begin and end so many columns too late."""

    def target(me: Rank, shifted: Tensor, targets: Tensor) -> Tensor:
        size = shifted.size(1)
        place = targets - me.rank * size
        found = shifted.gather(1, place.clamp(0, size - 1)[:, None])[:, 0]
        return torch.where((place >= first) & (place < size + last), found, 0.0)

    return target


def looks_outside(me: Rank, logits: Tensor, targets: Tensor) -> Tensor:
    """Right about the place, wrong about it being there."""
    place = targets - me.rank * logits.size(1)
    found = split_loss(target=lambda me, shifted, targets: shifted[torch.arange(len(place)), place])
    return found(me, logits, targets)


def in_place_loss(me: Rank, logits: Tensor, targets: Tensor) -> Tensor:
    logits -= shared_largest(me, logits)[:, None]
    return split_loss(largest=no_largest)(me, logits, targets)


def gathers_logits(me: Rank, logits: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(all_gather_split(me, logits, dim=1), targets)


def by_the_library(me: Rank, logits: Tensor, targets: Tensor) -> Tensor:
    from course_lib.parallel.tensor import vocab_parallel_cross_entropy

    return vocab_parallel_cross_entropy(me, logits, targets, vocab_size=me.world_size * logits.size(1))


EXERCISE = "08.loss"
EXAMPLES: dict[str, Any] = {
    "shifted-too-far": split_loss(largest=largest_of_all),
    "not-shifted": split_loss(largest=no_largest),
    "everybody-counts-the-target": split_loss(
        target=lambda me, shifted, targets: own_target(me, shifted, targets, masked=False)
    ),
    "token-as-place": split_loss(target=lambda me, shifted, targets: own_target(me, shifted, targets, first=0)),
    "place-by-remainder": split_loss(target=by_remainder),
    "first-token-missed": split_loss(target=between(1, 0)),
    "last-token-missed": split_loss(target=between(0, -1)),
    "one-column-too-many": split_loss(target=between(0, 1)),
    "own-part-only": lambda me, logits, targets: F.cross_entropy(logits, targets % logits.size(1)),
    "looks-outside": looks_outside,
    "target-not-shared": split_loss(shared_target=False),
    "gathers-the-logits": gathers_logits,
    "overwrites-the-logits": in_place_loss,
    "a-number": lambda me, logits, targets: split_loss()(me, logits, targets).item(),
}


FORBIDDEN = by_the_library
