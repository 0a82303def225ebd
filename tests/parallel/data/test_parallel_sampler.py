"""Samplers: torch's indices, every item dealt out, and global batches that do not depend on the number of ranks."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest
import torch
from torch.utils.data import DataLoader
from torch.utils.data import DistributedSampler as TorchsSampler

from course_lib.parallel.data import DistributedSampler, GlobalBatches

LENGTHS = (1, 2, 3, 4, 5, 7, 12, 23, 60)


def samplers(num_items: int, world_size: int, **settings) -> list[DistributedSampler]:
    return [DistributedSampler(num_items, rank=rank, world_size=world_size, **settings) for rank in range(world_size)]


@pytest.mark.parametrize("world_size", [1, 2, 3, 4, 5])
def test_the_indices_are_those_of_torch(world_size):
    for num_items, shuffle, drop_last, seed in product(LENGTHS, (True, False), (True, False), (0, 7)):
        settings = {"shuffle": shuffle, "drop_last": drop_last, "seed": seed}
        for rank, ours in enumerate(samplers(num_items, world_size, **settings)):
            torchs = TorchsSampler(range(num_items), world_size, rank, **settings)
            for epoch in (0, 1, 5):
                ours.set_epoch(epoch)
                torchs.set_epoch(epoch)
                assert list(ours) == list(torchs), (num_items, rank, epoch, settings)
                assert len(ours) == len(torchs)


@pytest.mark.parametrize("world_size", [1, 2, 3, 4, 5])
def test_ranks_get_equally_many_and_the_sampler_says_what_that_costs(world_size):
    for num_items, shuffle in product(LENGTHS, (True, False)):
        for drop_last in (True, False):
            ranks = samplers(num_items, world_size, shuffle=shuffle, drop_last=drop_last)
            assert len({len(list(one)) for one in ranks}) == 1
            times = Counter(item for one in ranks for item in one)
            assert ranks[0].num_dropped == num_items - len(times)
            assert ranks[0].num_repeated == sum(times.values()) - len(times)
            assert max(times.values(), default=1) - min(times.values(), default=1) <= 1
        remainder = num_items % world_size
        padded, cut = (samplers(num_items, world_size, drop_last=drop_last)[0] for drop_last in (False, True))
        assert (padded.num_repeated, padded.num_dropped) == (-num_items % world_size, 0)
        assert (cut.num_repeated, cut.num_dropped) == (0, remainder)


def test_a_seed_of_its_own_on_each_rank_breaks_the_partition():
    ranks = [DistributedSampler(100, rank=rank, world_size=4, seed=rank) for rank in range(4)]
    assert len({item for one in ranks for item in one}) < 100
    assert len({item for one in samplers(100, 4, seed=3) for item in one}) == 100


def test_the_order_depends_on_seed_and_epoch_alone():
    sampler = DistributedSampler(50, rank=1, world_size=2, seed=5)
    first = list(sampler)
    torch.manual_seed(11)
    assert list(sampler) == first, "no set_epoch: every epoch has the same order"
    before = torch.get_rng_state()
    sampler.set_epoch(1)
    assert sorted(list(sampler) + first) != sorted(first * 2)
    assert torch.equal(torch.get_rng_state(), before), "draws no random numbers of others"
    sampler.set_epoch(0)
    assert list(sampler) == first


def test_a_run_that_resumes_gets_the_rest_of_its_epoch_and_then_whole_ones():
    whole = DistributedSampler(23, rank=2, world_size=3, epoch=4)
    rest = DistributedSampler(23, rank=2, world_size=3, epoch=4, start=5)
    rest.set_epoch(4)
    assert list(rest) == list(whole)[5:]
    assert len(rest) == len(whole) - 5 == 3
    for sampler in (whole, rest):
        sampler.set_epoch(5)
    assert list(rest) == list(whole)
    assert len(rest) == 8
    assert list(DistributedSampler(23, rank=2, world_size=3, start=8)) == []


# -- global batches -------------------------------------------------------------------------------------------


def steps(world_size: int, num_items: int, batch_size: int, **settings) -> list[list[list[int]]]:
    """The shares of all ranks, by step."""
    of_rank = [
        list(GlobalBatches(num_items, rank=rank, world_size=world_size, global_batch_size=batch_size, **settings))
        for rank in range(world_size)
    ]
    return [list(shares) for shares in zip(*of_rank, strict=True)]


def union(shares: list[list[int]]) -> list[int]:
    return sorted(item for share in shares for item in share)


@pytest.mark.parametrize(("num_items", "batch_size"), [(60, 12), (61, 12), (23, 5), (7, 7), (4, 9)])
@pytest.mark.parametrize("shuffle", [True, False])
def test_global_batches_are_the_same_on_any_number_of_ranks(num_items, batch_size, shuffle):
    order = [batch for (batch,) in steps(1, num_items, batch_size, shuffle=shuffle, epoch=3)]
    assert union(order) == list(range(num_items)), "nothing lost, nothing twice"
    assert [len(batch) for batch in order[:-1]] == [batch_size] * (len(order) - 1)
    for world_size in (2, 3, 4, 5):
        dealt = steps(world_size, num_items, batch_size, shuffle=shuffle, epoch=3)
        assert [union(shares) for shares in dealt] == [sorted(batch) for batch in order]
        for shares in dealt:
            sizes = [len(share) for share in shares]
            assert max(sizes) - min(sizes) <= 1
    full = steps(3, num_items, batch_size, shuffle=shuffle, epoch=3, drop_last=True)
    assert len(full) == num_items // batch_size
    assert all(len(union(shares)) == batch_size for shares in full)


@pytest.mark.parametrize("world_sizes", [(1, 2, 3, 4), (4, 3, 2, 1), (2, 4, 1, 3)])
def test_a_run_that_resumes_on_another_number_of_ranks_gets_the_same_sequence(world_sizes):
    settings = {"num_items": 50, "batch_size": 8, "seed": 2}  # 7 batches an epoch, the last one short
    straight = [(epoch, union(shares)) for epoch in range(3) for shares in steps(1, **settings, epoch=epoch)]

    seen, epoch, done = [], 0, 0  # the position of the run, as its checkpoint keeps it
    for world_size, num_steps in zip(world_sizes, (3, 4, 5, 9), strict=True):  # 3 + 4: ends with an epoch
        while num_steps:
            ahead = steps(world_size, **settings, epoch=epoch, start=done)
            for shares in ahead[:num_steps]:
                seen.append((epoch, union(shares)))
                done, num_steps = done + 1, num_steps - 1
            if len(seen) % 7 == 0 and num_steps:
                epoch, done = epoch + 1, 0
    assert seen == straight
    for epoch in range(3):
        items = [item for of_epoch, batch in seen for item in batch if of_epoch == epoch]
        assert sorted(items) == list(range(50))


def test_where_numbers_divide_the_batches_are_those_of_a_distributed_sampler():
    for rank in range(4):
        sampler = DistributedSampler(48, rank=rank, world_size=4, seed=9)
        batches = GlobalBatches(48, rank=rank, world_size=4, global_batch_size=12, seed=9)
        for epoch in range(2):
            sampler.set_epoch(epoch)
            batches.set_epoch(epoch)
            mine = list(sampler)
            assert list(batches) == [mine[first : first + 3] for first in range(0, 12, 3)]


def test_set_epoch_goes_on_in_its_own_epoch_and_begins_another():
    batches = GlobalBatches(50, rank=0, world_size=2, global_batch_size=8, epoch=2, start=5)
    assert len(batches) == len(list(batches)) == 2
    batches.set_epoch(2)
    assert len(batches) == 2
    batches.set_epoch(3)
    assert len(batches) == len(list(batches)) == 7
    assert list(GlobalBatches(50, rank=0, world_size=2, global_batch_size=8, start=7)) == []


def test_both_serve_a_data_loader():
    data = torch.arange(20) * 10
    sampler = DistributedSampler(data, rank=1, world_size=3)
    got = [x.tolist() for x in DataLoader(data, batch_size=4, sampler=sampler)]
    assert [value for batch in got for value in batch] == [10 * item for item in sampler]
    batches = GlobalBatches(data, rank=1, world_size=3, global_batch_size=6)
    got = [x.tolist() for x in DataLoader(data, batch_sampler=batches)]
    assert got == [[10 * item for item in batch] for batch in batches]
    assert len(DataLoader(data, batch_sampler=batches)) == 4


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_items_or_dataset": 0}, "num_items=0 does not work.*nearest that works is 1"),
        ({"num_items_or_dataset": []}, "The data set has 0 items.*at least 1"),
        ({"rank": 4}, r"rank=4 is none of 0 \.\. 3.*nearest is 3"),
        ({"rank": -1}, "rank=-1.*nearest is 0"),
        ({"world_size": 0}, "world_size=0 does not work"),
        ({"start": -1}, "start=-1 does not work"),
        ({"start": 99}, "start=99 lies beyond the end: an epoch has 3 .*largest start is 3"),
    ],
)
def test_bad_input_gets_a_sentence(settings, message):
    base = {"num_items_or_dataset": 12, "rank": 0, "world_size": 4}
    with pytest.raises(ValueError, match=message):
        DistributedSampler(**base | settings)
    with pytest.raises(ValueError, match=message):
        GlobalBatches(**base | {"global_batch_size": 4} | settings)


def test_a_global_batch_has_an_item_for_every_rank():
    with pytest.raises(ValueError, match=r"global_batch_size=3 leaves some of 4 ranks without work.*smallest.*is 4"):
        GlobalBatches(12, rank=0, world_size=4, global_batch_size=3)
    with pytest.raises(ValueError, match="global_batch_size=0 does not work"):
        GlobalBatches(12, rank=0, world_size=1, global_batch_size=0)
