"""Right answers to the exercises of lesson 00 in other styles than the notebook's: a judge that refuses one is wrong.

Not shown to learners.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

__all__ = ["MEANS_NOTHING", "RIGHT_ANSWERS", "SAME_FUNCTION"]

# -- 00.share ----------------------------------------------------------------------------------------------------------


def by_rounding_up(num_items: int, rank: int, world_size: int) -> range:
    """One formula for every length, rounded up from what the ranks before have not taken."""

    def length(place: int) -> int:
        return -(-(num_items - place) // world_size)

    start = sum(map(length, range(rank)))
    return range(start, start + length(rank))


def by_adding_up_lengths(num_items: int, rank: int, world_size: int) -> range:
    """The lengths of all ranks in a list, added up."""
    lengths = [num_items // world_size + (r < num_items % world_size) for r in range(world_size)]
    borders = [0, *itertools.accumulate(lengths)]
    return range(borders[rank], borders[rank + 1])


def by_recursion(num_items: int, rank: int, world_size: int) -> range:
    """The first rank takes its share rounded up; the rest is the same task for one rank less."""
    own = -(-num_items // world_size)
    if rank == 0:
        return range(own)
    rest = by_recursion(num_items - own, rank - 1, world_size - 1)
    return range(own + rest.start, own + rest.stop)


def by_numpy(num_items: int, rank: int, world_size: int) -> range:
    """NumPy's cumulative sum, and its integers in the range."""
    lengths = np.full(world_size, num_items // world_size)
    lengths[: num_items % world_size] += 1
    ends = lengths.cumsum()
    return range(ends[rank] - lengths[rank], ends[rank])


def by_slicing(num_items: int, rank: int, world_size: int) -> range:
    """A slice of the range of all items, by a search among the borders."""
    base, extra = divmod(num_items, world_size)
    borders = [r * base + min(r, extra) for r in range(world_size + 1)]
    first = borders[rank]
    return range(num_items)[first : borders[bisect.bisect_left(range(world_size + 1), rank + 1)]]


# -- 00.mean -----------------------------------------------------------------------------------------------------------


def mean_by_futures(me: Any, values: torch.Tensor) -> float:
    """Two all-reduces in flight at once, and their futures."""
    total, count = values.sum(), torch.tensor(len(values), device=values.device)
    works = [dist.all_reduce(part, async_op=True) for part in (total, count)]
    for work in works:
        assert work is not None
        work.get_future().wait()
    return float(total / count)


def mean_by_gathered_pairs(me: Any, values: torch.Tensor) -> float:
    """Pairs of Python numbers from everybody, added up on every rank."""
    pairs: list[Any] = [None] * me.world_size
    dist.all_gather_object(pairs, (values.sum().item(), values.numel()))
    totals, counts = zip(*pairs, strict=True)
    return sum(totals) / sum(counts)


def mean_by_reduce_and_broadcast(me: Any, values: torch.Tensor) -> torch.Tensor:
    """A reduce to the last rank, a broadcast from there, and a tensor of one number."""
    last = me.world_size - 1
    totals = values.new_tensor([values.sum(), values.shape[0]])
    dist.reduce(totals, dst=last)
    dist.broadcast(totals, src=last)
    return totals[0] / totals[1]


def mean_by_messages(me: Any, values: torch.Tensor) -> Any:
    """Batched messages to everybody, and NumPy for the sums."""
    mine = torch.tensor([float(values.sum()), float(len(values))], dtype=torch.float64, device=me.device)
    others = [rank for rank in range(me.world_size) if rank != me.rank]
    rooms = [torch.empty_like(mine) for _ in others]
    messages = [dist.P2POp(dist.isend, mine, rank) for rank in others]
    messages += [dist.P2POp(dist.irecv, room, rank) for room, rank in zip(rooms, others, strict=True)]
    for work in dist.batch_isend_irecv(messages) if messages else ():
        work.wait()
    total, count = np.sum([part.cpu().numpy() for part in (mine, *rooms)], axis=0)
    return total / count


def mean_by_weights(me: Any, values: torch.Tensor) -> float:
    """Counts first; then each rank's mean, weighed by its share of all numbers."""
    count = torch.tensor([len(values)], device=values.device)
    dist.all_reduce(count)
    part = values.mean() * len(values) / count if len(values) else values.new_zeros(1)
    part = part.reshape(1)
    dist.all_reduce(part)
    return part.item()


# -- 00.report ---------------------------------------------------------------------------------------------------------


def report_by_reduce(me: Any, loss: torch.Tensor) -> str | None:
    """A reduce to rank 0 of a copy, and an early return."""
    total = loss.clone()
    dist.reduce(total, dst=0)
    if me.rank:
        return None
    return f"mean loss {total.item() / me.world_size:.2f}"


def report_by_gather(me: Any, loss: torch.Tensor) -> str | None:
    """Rank 0 gathers the losses and averages a stack of them."""
    rooms = [torch.empty_like(loss) for _ in range(me.world_size)] if me.rank == 0 else None
    dist.gather(loss, rooms, dst=0)
    return f"mean loss {torch.stack(rooms).mean().item():.2f}" if rooms else None


def report_by_objects(me: Any, loss: torch.Tensor) -> str | None:
    """Python numbers from everybody, added up by a fold."""
    losses: list[Any] = [0.0] * me.world_size
    dist.all_gather_object(losses, float(loss))
    text = "mean loss %.2f" % (reduce(lambda a, b: a + b, losses) / len(losses))
    return {0: text}.get(me.rank)


class ReportByMessages:
    """A class that is called: the others send their loss to rank 0, which receives them in turn."""

    def __call__(self, me: Any, loss: torch.Tensor) -> str | None:
        if me.rank:
            dist.send(loss, dst=0)
            return None
        total, room = loss.clone(), torch.empty_like(loss)
        for rank in range(1, me.world_size):
            dist.recv(room, src=rank)
            total += room
        return f"mean loss {float(total) / me.world_size:.2f}"


RIGHT_ANSWERS: dict[str, tuple[Callable[..., Any], ...]] = {
    "00.share": (by_rounding_up, by_adding_up_lengths, by_recursion, by_numpy, by_slicing),
    "00.mean": (
        mean_by_futures,
        mean_by_gathered_pairs,
        mean_by_reduce_and_broadcast,
        mean_by_messages,
        mean_by_weights,
    ),
    "00.report": (report_by_reduce, report_by_gather, report_by_objects, ReportByMessages()),
}

_FEW_CALLS = "the text asks for few bytes and counts no calls: an all-reduce for the sum and one for the count is right"
_ONE_LOSS = "the clinic asks that every rank meets, and counts neither calls nor bytes: a loss is one number"

MEANS_NOTHING: dict[str, dict[str, str]] = {
    "00.mean": {
        "only-without-requires-grad": "no cell hands over numbers that ask for a gradient: a report needs none",
        "all-of-it-twice": _FEW_CALLS,
        "an-extra-all-reduce": _FEW_CALLS,
        "an-extra-barrier": _FEW_CALLS,
        "an-extra-broadcast": _FEW_CALLS,
        "float64-inside": "a sum of thousands of numbers is better for it, and what is sent stays below the limit",
    },
    "00.report": {
        "fails-where-nothing-is-to-do": "a loss is one number",
        "only-without-requires-grad": "the cell hands over a loss without a history, and the solution reduces it in "
        "place, which PyTorch refuses for a leaf that asks for a gradient",
        "all-of-it-twice": _ONE_LOSS,
        "an-extra-all-reduce": _ONE_LOSS,
        "an-extra-barrier": _ONE_LOSS,
        "an-extra-broadcast": _ONE_LOSS,
        "float64-inside": _ONE_LOSS,
        "changes-an-input": "the solution itself reduces the loss in place",
    },
}

SAME_FUNCTION: dict[str, dict[str, str]] = {
    "00.share": {
        "2: `min(rank, extra)` -> `min(extra, rank)`": "The smaller of two whole numbers is the same in either order.",
    },
    "00.mean": {
        "1: `torch.tensor(float(len(values)), dtype=values.dtype, device=values.device)` -> "
        "`torch.tensor(float(len(values)), device=values.device)`": (
            "A count is exact in float32 up to 16 million, and `torch.stack` gives it the type of the sum."
        ),
        "1: `torch.tensor(float(len(values)), dtype=values.dtype, device=values.device)` -> "
        "`torch.tensor(float(len(values)), dtype=values.dtype)`": (
            "The same on ranks that compute on the CPU; where they have GPUs it raises, and that is told."
        ),
        "1: `float(len(values))` -> `len(values)`": "The type of the tensor is given, so the number may be whole.",
        "4: `float(totals[0] / totals[1])` -> `totals[0] / totals[1]`": (
            "A tensor of one number means the same as the number, and the text asks for no more."
        ),
    },
    "00.report": {
        "1: `dist.all_reduce(loss)` -> `dist.reduce(loss, dst=0)`": (
            "Only rank 0 reports, so only rank 0 needs the sum: a right answer of another style."
        ),
    },
}
