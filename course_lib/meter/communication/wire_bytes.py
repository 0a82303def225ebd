"""What one collective puts on the wire: to whom, how many bytes, in how many messages, by the algorithm in use.

gloo's algorithms were read off its sockets (torch 2.13; the kernel counts the bytes of every connection), and a test
compares this table with such a reading. NCCL chooses by size and topology; its rows assume the ring that it uses for
large buffers on one machine, and were not measured. Ranks here are numbers *within the group*.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Traffic", "traffic"]


@dataclass(frozen=True)
class Traffic:
    """What one rank sends: bytes by receiver, and the number of messages that the algorithm needs."""

    sent_bytes: dict[int, int]
    num_messages: int


def traffic(
    operation: str,
    *,
    rank: int,
    num_ranks: int,
    size_bytes: int,
    root: int = 0,
    backend: str = "gloo",
    split_bytes: Sequence[int] | None = None,
    is_list: bool = False,
) -> Traffic:
    """What ``rank`` of ``num_ranks`` sends in one ``operation`` on an input of ``size_bytes`` at this rank.

    ``size_bytes`` is the input buffer: for reduce_scatter and all_to_all the whole of it, for all_gather the rank's
    own part, for scatter and broadcast the root's. ``split_bytes`` are unequal parts of an all_to_all, by receiver.
    ``is_list``: the input of a reduce_scatter is a list, a tensor for each rank, and not one tensor.
    """
    n = num_ranks
    if n == 1 or operation == "barrier":
        return Traffic({}, 0 if n == 1 else (n - 1).bit_length())
    after = (rank + 1) % n
    if operation == "all_reduce" or (operation == "reduce_scatter" and backend == "gloo"):
        # A ring: n - 1 steps to reduce, n - 1 to gather. gloo's reduce-scatter is an all-reduce of which each rank
        # keeps its part; of a list it is one all-reduce for each of the n tensors.
        return Traffic({after: 2 * (n - 1) * size_bytes // n}, 2 * (n - 1) * (n if is_list else 1))
    if operation == "reduce_scatter":
        return Traffic({after: (n - 1) * size_bytes // n}, n - 1)
    if operation == "all_gather":
        return Traffic({after: (n - 1) * size_bytes}, n - 1)
    if operation == "broadcast":
        return _tree_broadcast(rank, n, size_bytes, root) if backend == "gloo" else _chain(rank, n, size_bytes, root)
    if operation == "reduce":
        return _reduce(rank, n, size_bytes, root, backend)
    if operation == "gather":
        return Traffic({} if rank == root else {root: size_bytes}, int(rank != root))
    if operation == "scatter":
        part = size_bytes // n
        return Traffic(
            {peer: part for peer in range(n) if peer != root} if rank == root else {},
            (n - 1) * (rank == root),
        )
    if operation == "all_to_all":
        parts = list(split_bytes) if split_bytes else [size_bytes // n] * n
        sent = {peer: parts[peer] for peer in range(n) if peer != rank and parts[peer]}
        return Traffic(sent, len(sent))
    raise ValueError(f"no algorithm is known for operation {operation!r}")


def _tree_broadcast(rank: int, n: int, size_bytes: int, root: int) -> Traffic:
    """A binomial tree: in step i, ranks below 2**i (counted from the root) send to the one 2**i further on."""
    relative_rank = (rank - root) % n
    children = [
        relative_rank + 2**i for i in range((n - 1).bit_length()) if relative_rank < 2**i and relative_rank + 2**i < n
    ]
    return Traffic({(child + root) % n: size_bytes for child in children}, len(children))


def _chain(rank: int, n: int, size_bytes: int, root: int) -> Traffic:
    """From the root along the ring; the last rank passes nothing on."""
    is_last = (rank - root) % n == n - 1
    return Traffic({} if is_last else {(rank + 1) % n: size_bytes}, int(not is_last))


def _reduce(rank: int, n: int, size_bytes: int, root: int, backend: str) -> Traffic:
    """gloo: reduce-scatter around a ring, then every rank sends its part to the root. NCCL: a chain to the root."""
    if backend != "gloo":
        return Traffic({} if rank == root else {(rank + 1) % n: size_bytes}, int(rank != root))
    part = size_bytes // n
    sent = {(rank + 1) % n: (n - 1) * part}
    if rank != root:
        sent[root] = sent.get(root, 0) + part
    return Traffic(sent, n - 1 + (rank != root))
