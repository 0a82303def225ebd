"""A vote over bits: every difference is found, the wrong ranks are named or nobody is, and it costs 8 bytes a rank."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

from course_lib.cluster import Rank
from course_lib.meter import metered
from course_lib.parallel.collectives import hash_of_bits, odd_ranks

DTYPES = (
    torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.complex64, torch.int64, torch.uint8, torch.bool,
)  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_bit_counts(dtype):
    raw = torch.tensor([0, 1], dtype=torch.uint8) if dtype is torch.bool else torch.zeros(16, dtype=torch.uint8)
    first = raw.view(dtype)
    hashes = {hash_of_bits([first])}
    num_bits = 1 if dtype is torch.bool else 8
    for place in range(len(raw)):
        for bit in range(num_bits):
            changed = raw.clone()
            changed[place] ^= 1 << bit
            hashes.add(hash_of_bits([changed.view(dtype)]))
    assert len(hashes) == 1 + num_bits * len(raw)


def test_bits_and_not_numbers():
    nan, zero = torch.tensor([float("nan")]), torch.tensor([0.0])
    assert hash_of_bits([nan]) == hash_of_bits([nan.clone()])
    assert hash_of_bits([zero]) != hash_of_bits([-zero])


def test_order_shapes_and_dtypes_count_and_the_layout_does_not():
    a, b = torch.arange(6.0).view(2, 3), torch.ones(2, 3)
    assert hash_of_bits([a, b]) != hash_of_bits([b, a])
    assert hash_of_bits([a]) != hash_of_bits([a.view(3, 2)])
    assert hash_of_bits([torch.zeros(2)]) != hash_of_bits([torch.zeros(2, dtype=torch.int32)])
    assert hash_of_bits([a.mT.contiguous().mT]) == hash_of_bits([a])
    assert hash_of_bits([torch.arange(12.0)[::2]]) == hash_of_bits([torch.arange(0, 12.0, 2)])
    assert hash_of_bits([]) != hash_of_bits([torch.zeros(0)])


def held(labels: tuple[int, ...], me: Rank) -> list[torch.Tensor]:
    """Equal labels hold equal bits."""
    return [torch.ones(5), torch.tensor(float(labels[me.rank]), dtype=torch.bfloat16), torch.zeros(0)]


def vote(me: Rank, labels: tuple[int, ...]) -> list[int] | None:
    return odd_ranks(me, held(labels, me))


@pytest.mark.parametrize(
    ("labels", "odd"),
    [
        ((0, 0, 0, 0), []),
        ((0, 0, 1, 0), [2]),
        ((1, 0, 0, 0), [0]),
        ((0, 0, 1, 1), None),
        ((0, 0, 1, 2), None),
        ((0, 1, 2, 3), None),
    ],
    ids=str,
)
def test_the_majority_names_who_differs(cluster4, labels, odd):
    assert list(cluster4.run(vote, labels)) == [odd] * 4


def test_two_ranks_know_that_they_differ_and_no_more(cluster2):
    assert list(cluster2.run(vote, (0, 0))) == [[]] * 2
    assert list(cluster2.run(vote, (0, 1))) == [None] * 2


def in_halves(me: Rank) -> list[int] | None:
    halves = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    return odd_ranks(me, [torch.full((3,), float(me.rank // 2))], group=halves[me.rank // 2])


def test_a_group_asks_its_own(cluster4):
    assert list(cluster4.run(in_halves)) == [[]] * 4


def test_it_costs_eight_bytes_to_each_other_rank(cluster4):
    run = metered(cluster4, vote, (0, 0, 1, 0))
    (call,) = run.communication.of(0).calls
    assert sum(call.sent_bytes.values()) == 8 * 3


def test_a_tensor_without_values_is_refused():
    with pytest.raises(ValueError, match=r"tensors\[1\] is on the meta device"):
        hash_of_bits([torch.ones(1), torch.ones(1, device="meta")])
