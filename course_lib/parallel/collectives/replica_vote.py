"""A majority vote over bits: which ranks hold other tensors than most ranks do.

What should be equal on all ranks is hashed, and 8 bytes a rank tell who differs. It fits whatever replicas have in
common: weights after a step, optimizer states, or the gradients of one micro-batch that all ranks have computed.
``data/replica_divergence.py`` compares a model's parameters by name; here nobody asks where they differ, but who is
wrong.

A vote names the wrong ones where more than half of the ranks agree. Two ranks that differ know that one of them is
wrong, and not which. And it knows what is common, not what is right: a fault that all ranks share is not found.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor

from course_lib.cluster.base.rank import Rank
from course_lib.parallel.collectives.members import Members, bytes_of

__all__ = ["hash_of_bits", "odd_ranks"]


def odd_ranks(me: Rank, tensors: Iterable[Tensor], group: dist.ProcessGroup | None = None) -> list[int] | None:
    """The ranks of ``group`` (default: all) whose tensors differ in a bit from those of more than half of them.

    The global ranks in order, and none where all agree. ``None`` where no more than half agree: then somebody is wrong,
    and a vote cannot tell who. Every rank of the group calls it with tensors in the same order, and all get the same
    answer. Bits are compared, not numbers: 0.0 differs from -0.0, and NaN equals itself.

    Cost: one pass over the tensors, on the host, and one all-gather of 8 bytes a rank. ``ValueError`` for tensors on
    ``meta``, which have no bits.
    """
    members = Members.of(me, group)
    mine = torch.tensor([hash_of_bits(tensors)], device=me.device)
    hashes = [torch.empty_like(mine) for _ in members.ranks]
    dist.all_gather(hashes, mine, group=group)
    votes = [int(one) for one in hashes]
    most, count = Counter(votes).most_common(1)[0]
    if 2 * count <= members.count:
        return None
    return [rank for rank, vote in zip(members.ranks, votes, strict=True) if vote != most]


def hash_of_bits(tensors: Iterable[Tensor]) -> int:
    """64 bits, as an int64, of all bits of some tensors, their shapes and dtypes: the same on every device and rank.

    How a tensor lies in memory does not matter.
    """
    found = hashlib.blake2b(digest_size=8)
    for place, tensor in enumerate(tensors):
        if tensor.is_meta:
            raise ValueError(
                f"tensors[{place}] is on the meta device: it has a shape and no values to compare. Give tensors with "
                "values, on the CPU or on a GPU"
            )
        found.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        for chunk in bytes_of(tensor):
            found.update(chunk)
    return int.from_bytes(found.digest(), "big", signed=True)
