"""Which rank reads which examples: a data set dealt out to ranks, anew in each epoch.

No message is sent. Every rank shuffles the *whole* data set with the same seed, so all hold the same order, and
each takes its share of it. A seed of its own on each rank would break this: shares of different orders overlap.

``DistributedSampler``  gives a rank its items one by one; a ``DataLoader`` cuts them into batches.
``GlobalBatches``       gives a rank its share of each *global* batch, what all ranks together train on in one step.
                        Global batches do not depend on the number of ranks: a run may resume on more or on fewer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sized

import torch
from torch.utils.data import Sampler

from course_lib.base.checked import checked
from course_lib.base.checks import at_least

__all__ = ["DistributedSampler", "GlobalBatches"]


def _epoch_order(num_items: int, *, shuffle: bool, seed: int, epoch: int) -> list[int]:
    """The items in the order of this epoch: the same list on every rank, whatever else drew random numbers."""
    if not shuffle:
        return list(range(num_items))
    generator = torch.Generator().manual_seed(seed + epoch)  # as torch's sampler does
    return torch.randperm(num_items, generator=generator).tolist()


@checked
class DistributedSampler(Sampler[int]):
    """One rank's share of a data set: every ``world_size``-th item, from item number ``rank`` of the epoch's order.

    The same indices as ``torch.utils.data.DistributedSampler``. All ranks get equally many, because a rank
    with one batch more would hang in its last all-reduce. Where the number does not divide, either
    the first ``num_repeated`` items of the order come twice, or with ``drop_last`` the last ``num_dropped`` of
    it are left out in this epoch.

    Call ``set_epoch`` before each epoch; without it every epoch has the same order. To resume in mid-epoch with
    the *same* number of ranks give the ``epoch``, and as ``start`` how many of its items each rank has had.
    (For another number of ranks, see ``GlobalBatches``.)

    Raises ``ValueError`` for an empty data set, a rank outside of 0 .. world_size - 1, and a start beyond the end.
    """

    def __init__(
        self,
        num_items_or_dataset: int | Sized,
        *,
        rank: int,
        world_size: int,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        epoch: int = 0,
        start: int = 0,
    ) -> None:
        self.num_items = _checked_number(num_items_or_dataset, rank, world_size)
        self.rank, self.world_size = rank, world_size
        self.shuffle, self.seed, self.drop_last = shuffle, seed, drop_last
        share = self.num_items / world_size
        self.num_samples = math.floor(share) if drop_last else math.ceil(share)  # of one rank in one epoch
        at_least(0, epoch=epoch)
        self.epoch = epoch
        self.start = _checked_start(start, self.num_samples, "items of each rank")

    @property
    def num_repeated(self) -> int:
        """How many items the ranks together get more than there are."""
        return max(0, self.num_samples * self.world_size - self.num_items)

    @property
    def num_dropped(self) -> int:
        """How many items no rank gets in an epoch; which ones changes with the order."""
        return max(0, self.num_items - self.num_samples * self.world_size)

    def set_epoch(self, epoch: int) -> None:
        """Choose the order; another epoch than the present one begins at its first item."""
        if epoch != self.epoch:
            self.epoch, self.start = epoch, 0

    def __iter__(self) -> Iterator[int]:
        order = _epoch_order(self.num_items, shuffle=self.shuffle, seed=self.seed, epoch=self.epoch)
        total = self.num_samples * self.world_size
        rounds = math.ceil(total / self.num_items)  # above 1 where items repeat, above 2 with fewer items than ranks
        dealt = (order * rounds)[:total]
        return iter(dealt[self.rank :: self.world_size][self.start :])

    def __len__(self) -> int:
        return self.num_samples - self.start


@checked
class GlobalBatches(Sampler[list[int]]):
    """One rank's share of each global batch; on any number of ranks, batch ``g`` is ``order[g * B : (g + 1) * B]``.

    It goes where a ``DataLoader`` takes a ``batch_sampler``. No item is lost or comes twice, so shares may
    differ by one, and in a last, short batch (``drop_last`` leaves it out) a rank's share may even be empty: weigh
    by items, as ``global_mean`` does, and mind that a ``DataLoader`` cannot collate an empty list. Where the
    numbers divide, these are the batches of a ``DistributedSampler``.

    The position of a run is its ``epoch`` and how many global batches of it have been *trained* on, the
    ``start`` of a run that resumes. The training loop counts them and keeps them in the checkpoint; a sampler
    cannot know, for a loader's workers draw from it ahead of time.

    Raises ``ValueError`` as ``DistributedSampler`` does, and for fewer items in a batch than ranks.
    """

    def __init__(
        self,
        num_items_or_dataset: int | Sized,
        *,
        rank: int,
        world_size: int,
        global_batch_size: int,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        epoch: int = 0,
        start: int = 0,
    ) -> None:
        self.num_items = _checked_number(num_items_or_dataset, rank, world_size)
        at_least(1, global_batch_size=global_batch_size)
        if global_batch_size < world_size:
            raise ValueError(
                f"global_batch_size={global_batch_size} leaves some of {world_size} ranks without work in every step. "
                f"The smallest that works is {world_size}."
            )
        self.rank, self.world_size, self.global_batch_size = rank, world_size, global_batch_size
        self.shuffle, self.seed = shuffle, seed
        share = self.num_items / global_batch_size
        self.num_batches = math.floor(share) if drop_last else math.ceil(share)  # in one epoch
        at_least(0, epoch=epoch)
        self.epoch = epoch
        self.start = _checked_start(start, self.num_batches, "global batches")

    def set_epoch(self, epoch: int) -> None:
        """Choose the order; another epoch than the present one begins at its first batch."""
        if epoch != self.epoch:
            self.epoch, self.start = epoch, 0

    def __iter__(self) -> Iterator[list[int]]:
        order = _epoch_order(self.num_items, shuffle=self.shuffle, seed=self.seed, epoch=self.epoch)
        for number in range(self.start, self.num_batches):
            first = number * self.global_batch_size
            global_batch = order[first : first + self.global_batch_size]
            yield global_batch[self.rank :: self.world_size]

    def __len__(self) -> int:
        return self.num_batches - self.start


def _checked_number(num_items_or_dataset: int | Sized, rank: int, world_size: int) -> int:
    """The number of items, after a look at the other two."""
    at_least(1, world_size=world_size)
    if not 0 <= rank < world_size:
        nearest = min(max(rank, 0), world_size - 1)
        raise ValueError(f"rank={rank} is none of 0 .. {world_size - 1}, the ranks of world_size={world_size}. "
                         f"The nearest is {nearest}.")  # fmt: skip
    if isinstance(num_items_or_dataset, Sized):
        if not len(num_items_or_dataset):
            raise ValueError("The data set has 0 items, and the sampler needs at least 1.")
        return len(num_items_or_dataset)
    at_least(1, num_items=num_items_or_dataset)
    return num_items_or_dataset


def _checked_start(start: int, end: int, of: str) -> int:
    at_least(0, start=start)
    if start > end:
        raise ValueError(
            f"start={start} lies beyond the end: an epoch has {end} {of}. The largest start is {end}, the end of an "
            "epoch. Was the run saved with other settings?"
        )
    return start
