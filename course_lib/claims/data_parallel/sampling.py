"""Trials of what is said about who trains on which samples: seeds, DistributedSampler, set_epoch."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from course_lib.claims.court.evidence import Evidence, Ranks, tries
from course_lib.cluster.base.rank import Rank

__all__: list[str] = []

_NUM_ITEMS, _BATCH_SIZE = 64, 8
_ITEMS = TensorDataset(torch.arange(_NUM_ITEMS))


def _epoch(loader: DataLoader) -> list[int]:
    """The samples of one epoch, in order."""
    return [int(item) for (batch,) in loader for item in batch]


def _epoch_without_sampler(me: Rank, seeds: Sequence[int]) -> list[int]:
    order = torch.Generator().manual_seed(seeds[me.rank])
    return _epoch(DataLoader(_ITEMS, _BATCH_SIZE, shuffle=True, generator=order))


def _epochs_with_sampler(
    me: Rank, num_items: int, seeds: Sequence[int], num_epochs: int, set_epoch: bool
) -> list[list[int]]:
    items = TensorDataset(torch.arange(num_items))
    sampler: DistributedSampler[int] = DistributedSampler(items, me.world_size, me.rank, seed=seeds[me.rank])
    loader = DataLoader(items, _BATCH_SIZE, sampler=sampler)
    epochs = []
    for epoch in range(num_epochs):
        if set_epoch:
            sampler.set_epoch(epoch)
        epochs.append(_epoch(loader))
    return epochs


def _num_same_batches(one: list[int], other: list[int]) -> int:
    """How many batches of two epochs hold the same samples in the same order, at the same place."""
    return sum(one[i : i + _BATCH_SIZE] == other[i : i + _BATCH_SIZE] for i in range(0, _NUM_ITEMS, _BATCH_SIZE))


@tries("A8")
def a_new_shuffle_needs_set_epoch(ranks: Ranks) -> Evidence:
    """Three epochs with and without ``set_epoch``: how many different orders come out?"""
    seeds, orders = (0, 0), {}
    for set_epoch in (False, True):
        epochs = ranks(2).run(_epochs_with_sampler, _NUM_ITEMS, seeds, 3, set_epoch)[0]
        orders[set_epoch] = len(set(map(tuple, epochs)))
    return Evidence(
        "holds" if (orders[False], orders[True]) == (1, 3) else "false",
        {"orders in 3 epochs, without set_epoch": orders[False], "with set_epoch": orders[True]},
        because="the sampler shuffles by seed + epoch, and only set_epoch tells it the epoch",
        turns_if="the program made a new sampler for each epoch, with another seed",
    )


@tries("C5")
def a_shared_seed_without_sampler_gives_identical_batches(ranks: Ranks) -> Evidence:
    """Two ranks with the same seed and no sampler: are their batches the same?"""
    first, second = ranks(2).run(_epoch_without_sampler, (7, 7))
    same = _num_same_batches(first, second)
    return Evidence(
        "holds" if same == _NUM_ITEMS // _BATCH_SIZE else "false",
        {"identical batches": f"{same} of {_NUM_ITEMS // _BATCH_SIZE}"},
        because="both ranks draw the same order, so the second does the first one's work again",
        turns_if="the ranks drew with different seeds: their batches then differ, and overlap",
    )


@tries("C6")
def different_seeds_make_batches_distinct(ranks: Ranks) -> Evidence:
    """Different seeds, without a sampler and with one: do batches repeat, and is every sample seen once in an epoch?"""
    without = ranks(2).run(_epoch_without_sampler, (7, 8))
    repeated = _num_same_batches(*without)
    half = _NUM_ITEMS // 2  # what each of two ranks would take of a shared epoch
    both = len(set(without[0][:half]) & set(without[1][:half]))
    sampled = [epochs[0] for epochs in ranks(2).run(_epochs_with_sampler, _NUM_ITEMS, (7, 8), 1, True)]
    missed = _NUM_ITEMS - len(set(sampled[0]) | set(sampled[1]))
    return Evidence(
        "false" if repeated else "misleading" if both and missed else "holds",
        {
            "without a sampler, batches that both ranks have": f"{repeated} of {_NUM_ITEMS // _BATCH_SIZE}",
            "without a sampler, seen by both ranks": f"{both} of {half}",
            "with DistributedSampler, seen by nobody": f"{missed} of {_NUM_ITEMS}",
        },
        because="no two batches are the same, and yet they overlap, since each rank draws from all samples. A "
        "distributed sampler shares out each sample once only if all ranks shuffle alike",
        turns_if="every rank drew from samples of its own, as it does by a sampler with one seed for all ranks",
    )


@tries("E5")
def the_sampler_gives_disjoint_subsets(ranks: Ranks) -> Evidence:
    """64 samples, then 66, on 4 ranks: how many samples does more than one rank get?"""
    repeated = {}
    for num_items in (64, 66):
        epochs = ranks(4).run(_epochs_with_sampler, num_items, (0,) * 4, 1, True)
        seen = [item for (epoch,) in epochs for item in epoch]
        repeated[num_items] = len(seen) - len(set(seen))
    return Evidence(
        "false" if repeated[64] else "holds with conditions" if repeated[66] else "holds",
        {f"samples handed out twice, of {number} on 4 ranks": count for number, count in repeated.items()},
        because="it does if the number of ranks divides the number of samples. If not, the sampler repeats some "
        "samples, so that all ranks get equally many. With drop_last=True it leaves some out instead",
        turns_if="every length was a multiple of the number of ranks, or drop_last=True was the default (then it "
        "holds)",
    )
