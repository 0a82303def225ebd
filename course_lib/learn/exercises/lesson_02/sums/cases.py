"""The build 02.all_reduce: the tensors and groups on which an answer is tried, the steps, and what is right."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from math import ceil
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from course_lib.cluster.base.rank import Rank

__all__ = [
    "AFTER",
    "ALONE",
    "COMPLEX",
    "EMPTY",
    "EVEN",
    "FEW",
    "GROUP_KINDS",
    "LARGE",
    "LAST",
    "ORDER",
    "PAIR",
    "ROWS",
    "SCALAR",
    "SMALL_BYTES",
    "TENSOR_KINDS",
    "TURNED",
    "TWO",
    "UNEVEN",
    "Demand",
    "fewest_rounds",
    "group_of",
    "is_small",
    "laid",
    "members_of",
    "part_bytes",
    "sum_of",
    "tensor_of",
]

EVEN = "240 numbers"
UNEVEN = "7 large whole numbers"
FEW = "2 numbers of bfloat16"
EMPTY = "no numbers at all"
SCALAR = "one number without dims"
TURNED = "every other column of a matrix, transposed"
COMPLEX = "128 complex numbers"  # 1 KiB, and no byte more
ROWS = "606 numbers of bfloat16 in two rows"
LARGE = "3001 numbers"
LAST = "240 other numbers"
TENSOR_KINDS = (EVEN, UNEVEN, FEW, EMPTY, SCALAR, TURNED, COMPLEX, ROWS, LARGE, LAST)

PAIR = "a group of two ranks that are not the first"
ORDER = "a group of all ranks in turned order"
TWO = "two groups at the same time"
ALONE = "a group of one rank each"
AFTER = "all ranks, after a small tensor in a group of two"
GROUP_KINDS = (PAIR, ORDER, TWO, ALONE, AFTER)

SMALL_BYTES = 1024  # up to here what counts is the number of messages

_SHAPES: dict[str, tuple[int, ...]] = {
    EVEN: (240,),
    UNEVEN: (7,),
    FEW: (2,),
    EMPTY: (0, 3),
    SCALAR: (),
    TURNED: (5, 25),
    COMPLEX: (2, 64),
    ROWS: (2, 303),
    LARGE: (3001,),
    LAST: (240,),
    PAIR: (301, 3),
    ORDER: (3001,),
    TWO: (61,),
    ALONE: (300,),
    AFTER: (3001,),
}
_DTYPES = {
    EVEN: torch.float64,
    UNEVEN: torch.int64,
    FEW: torch.bfloat16,
    COMPLEX: torch.complex64,
    ROWS: torch.bfloat16,
    LAST: torch.float64,
    ALONE: torch.float64,
}


class Demand(IntEnum):
    """What a step demands, with all that is before it."""

    VALUES = 1
    BYTES = 2
    MEMORY = 3
    LATENCY = 4
    GROUPS = 5


# -- tensors ---------------------------------------------------------------------------------------------------------


def tensor_of(kind: str, rank: int) -> Tensor:
    """What a rank has: other numbers on each, whose sums no order of adding rounds."""
    shape, dtype = _SHAPES[kind], _DTYPES.get(kind, torch.float32)
    place = torch.arange(torch.Size(shape).numel()).reshape(shape)
    if kind == UNEVEN:
        return place * 2**33 + rank * (2**40 + 3) + 1  # sums that float32 would round
    if kind in (FEW, ROWS):
        return (place % 23 + (rank + 1) ** 2).to(dtype)  # sums below 256, which bfloat16 does not round
    numbers = ((place % 97 + 1) / 8 + (rank + 1) ** 2).to(dtype)
    if kind == COMPLEX:
        return numbers + 1j * (place % 7 - 3 * rank)
    return -numbers if kind == LAST else numbers


def laid(kind: str, rank: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """The tensor, and the memory in which it lies: for one kind between other numbers."""
    own = tensor_of(kind, rank).to(device)
    if kind != TURNED:
        return own, own
    memory = torch.full((own.shape[1], 2 * own.shape[0]), -7.0, device=device)  # (25, 10)
    tensor = memory[:, ::2].t()  # (5, 25), with a gap between any two numbers
    return tensor.copy_(own), memory


def sum_of(kind: str, ranks: tuple[int, ...]) -> Tensor:
    """Added up over these ranks."""
    return torch.stack([tensor_of(kind, rank) for rank in ranks]).sum(0).to(tensor_of(kind, 0).dtype)


def is_small(kind: str) -> bool:
    """Whether messages are what counts, and not bytes."""
    one = tensor_of(kind, 0)
    return one.numel() * one.element_size() <= SMALL_BYTES


def part_bytes(kind: str, num_ranks: int) -> int:
    """The largest part of the tensor, one for each rank."""
    one = tensor_of(kind, 0)
    return ceil(one.numel() / num_ranks) * one.element_size()


def fewest_rounds(num_ranks: int) -> int:
    """In how many rounds the numbers of one rank can reach all: log2 n, rounded up."""
    return (num_ranks - 1).bit_length()


# -- groups ----------------------------------------------------------------------------------------------------------


def members_of(kind: str, rank: int, world_size: int) -> tuple[int, ...]:
    """The ranks among which this rank adds up, in the order of its group; none where it takes no part."""
    everybody = tuple(range(world_size))
    match kind:
        case _ if kind == PAIR:
            pair = tuple(dict.fromkeys((world_size // 2, world_size - 1)))
            return pair if rank in pair else ()
        case _ if kind == ORDER:
            return everybody[::-1]
        case _ if kind == TWO:
            return everybody[rank % 2 :: 2]
        case _ if kind == ALONE:
            return (rank,)
    return everybody


@contextmanager
def group_of(kind: str, me: Rank) -> Iterator[Any]:
    """The group of this rank; None where all take part as they are, and for who takes no part.

    Every rank makes all groups, in the same order. Within, all ranks hear of each other last of all: gloo's connections
    are there on one rank before they are on another.
    """
    if kind not in GROUP_KINDS or kind == AFTER:
        yield None
        return
    wanted = {members_of(kind, rank, me.world_size) for rank in range(me.world_size)} - {()}
    groups = {ranks: dist.new_group(list(ranks), sort_ranks=False) for ranks in sorted(wanted)}
    own = groups.get(members_of(kind, me.rank, me.world_size))
    yield own
    if own is not None:
        dist.destroy_process_group(own)
