"""Planted bit flips: exactly one bit, in exactly these calls, and a sentence for what cannot be planted."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from course_lib.learn.sick.bit_flips import FLOAT32_BITS, flip_bit, plant_in_products


def flipped(value: float, bit: int) -> float:
    tensor = torch.tensor([value])
    flip_bit(tensor, bit)
    return tensor.item()


@pytest.mark.parametrize("bit", range(FLOAT32_BITS))
def test_one_bit_and_no_other(bit):
    tensor = torch.tensor([[1.0, 0.02], [-3.5, 7.0]])
    before = tensor.clone()
    flip_bit(tensor, bit, place=2)
    changed = tensor.view(torch.int32) ^ before.view(torch.int32)
    assert [one & 0xFFFFFFFF for one in changed.flatten().tolist()] == [0, 0, 1 << bit, 0]
    flip_bit(tensor, bit, place=2)
    assert torch.equal(tensor, before)


def test_what_the_bits_mean():
    assert flipped(1.0, 22) == 1.5
    assert flipped(1.0, 31) == -1.0
    assert flipped(1.0, 23) == 0.5
    assert flipped(1.0, 30) == float("inf")
    assert flipped(0.02, 30) > 1e30


def test_autograd_sees_nothing():
    weight = nn.Parameter(torch.ones(3))
    (weight * 2).sum().backward()
    flip_bit(weight, 22)
    assert weight.tolist() == [1.5, 1.0, 1.0]
    assert weight.is_leaf
    assert weight.grad.tolist() == [2.0, 2.0, 2.0]


def test_a_fault_in_some_calls_until_it_is_taken_out():
    layer = nn.Linear(4, 2)
    x = torch.ones(1, 4)
    right = layer(x).detach()
    handle = plant_in_products(layer, lambda call: call % 2 == 1)
    seen = [torch.equal(layer(x), right) for _ in range(4)]
    handle.remove()
    assert seen == [True, False, True, False]
    assert torch.equal(layer(x), right)


@pytest.mark.parametrize(
    ("tensor", "how", "words"),
    [
        (torch.ones(2, dtype=torch.float64), {"bit": 3}, "torch.float64"),
        (torch.ones(2), {"bit": 32}, "bit is at most 31"),
        (torch.ones(2), {"bit": -1}, "bit"),
        (torch.ones(2), {"bit": 0, "place": 2}, "place is at most 1"),
        (torch.ones(4)[::2], {"bit": 0}, "tensor.contiguous()"),
        (torch.ones(0), {"bit": 0}, "has none"),
    ],
)
def test_what_cannot_be_flipped_says_so(tensor, how, words):
    with pytest.raises(ValueError, match=r"flip_bit|does not work") as raised:
        flip_bit(tensor, **how)
    assert words in str(raised.value)
