"""Weights in one byte each: against float64 in one process, then by bytes, then as ``fully_shard``'s own gather."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib import shared_cluster
from course_lib.meter import metered
from course_lib.parallel.collectives.members import Members
from course_lib.parallel.sharded import all_gather_quantized, dequantize_blocks, quantize_blocks

INT8, FLOAT8 = torch.int8, torch.float8_e4m3fn


def numbers_of(size, seed=0, dtype=torch.float32):
    return torch.randn(size, generator=torch.Generator().manual_seed(seed)).to(dtype)


def come_back(numbers, block_size, dtype=INT8):
    return dequantize_blocks(*quantize_blocks(numbers, block_size, dtype), block_size, numbers.dtype)


@pytest.mark.parametrize("size", [0, 1, 31, 32, 33, 1000])
@pytest.mark.parametrize("block_size", [1, 32, 4096])
def test_each_number_is_off_by_half_a_scale_of_its_own_block_at_most(size, block_size):
    numbers = numbers_of(size) * 10.0 ** torch.arange(size).remainder(7)
    codes, scales = quantize_blocks(numbers, block_size)
    assert codes.dtype is INT8
    assert codes.shape == numbers.shape
    for part, of_part, scale in zip(
        numbers.double().split(block_size) if size else (), codes.split(block_size), scales.double(), strict=False
    ):
        assert scale == pytest.approx(part.abs().max().item() / 127)
        assert ((of_part.double() * scale - part).abs() <= scale * (0.5 + 1e-5)).all()
        assert of_part.abs().max() == 127


def test_float8_is_off_by_a_sixteenth_of_each_number_at_most():
    numbers = numbers_of(4096)
    large = numbers.abs() > numbers.abs().max() / 448 / 32  # below, steps are no finer
    off = (come_back(numbers, 256, FLOAT8) - numbers).abs() / numbers.abs()
    assert off[large].max() <= 1 / 16 + 1e-3


@pytest.mark.parametrize("dtype", [INT8, FLOAT8])
def test_the_largest_stays_and_zeros_stay(dtype):
    numbers = torch.tensor([3.0, 0.0, -1.0, 0.0, 0.0, 0.0, -2.0, 0.0])
    back = come_back(numbers, 2, dtype)
    torch.testing.assert_close(back, numbers)
    assert (back[numbers == 0] == 0).all()


@pytest.mark.parametrize("dtype", [INT8, FLOAT8])
@pytest.mark.parametrize("size", [1e-44, 1e-38, 1e-20, 1e20, 3e38])
def test_no_size_of_numbers_makes_nan(dtype, size):
    numbers = torch.tensor([1.0, -0.5, 0.25, 0.0]) * size
    back = come_back(numbers, 4, dtype)
    assert back.isfinite().all()
    assert ((back - numbers).abs() <= max(size / 16, 1e-38)).all()


def test_an_outlier_spoils_its_own_block_alone():
    numbers = numbers_of(1024)
    spoilt = numbers.clone()
    spoilt[300] = 1e6
    own = slice(256, 512)
    before, after = come_back(numbers, 256), come_back(spoilt, 256)
    assert (after[own] == 0).sum() == 255
    after[own] = before[own]
    assert torch.equal(before, after)


def test_what_came_back_comes_back_again_as_it_is():
    once = come_back(numbers_of(1000), 64)
    torch.testing.assert_close(come_back(once, 64), once, rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: quantize_blocks(torch.zeros(2, 3), 2), r"flat row.*\(2, 3\)"),
        (lambda: quantize_blocks(torch.zeros(4), 0), "block_size"),
        (
            lambda: quantize_blocks(torch.zeros(4), 2, torch.int16),
            "or torch.float8_e4m3fn; this is torch.int16",
        ),
        (lambda: quantize_blocks(torch.tensor([1.0, torch.inf]), 2), "inf or nan"),
        (lambda: dequantize_blocks(torch.zeros(4, dtype=INT8), torch.zeros(3), 2), "need 2 scales"),
        (lambda: dequantize_blocks(torch.zeros(2, 2, dtype=INT8), torch.zeros(2), 2), "flat row"),
    ],
)
def test_what_it_cannot_do_gets_a_sentence(call, words):
    with pytest.raises(ValueError, match=words):
        call()


# -- on ranks -------------------------------------------------------------------------------------------------------


def gathered(me, size, block_size, dtype, code_dtype):
    own = numbers_of(size, me.rank, dtype) * (1 + me.rank)
    kept = own.clone()
    full = all_gather_quantized(Members.of(me, None), own, block_size, code_dtype)
    assert torch.equal(own, kept)
    return full


@pytest.mark.parametrize(
    ("size", "block_size", "dtype", "code_dtype"),
    [
        (100, 32, torch.float32, INT8),
        (100, 32, torch.float32, FLOAT8),
        (64, 64, torch.bfloat16, INT8),
        (5, 64, torch.float64, INT8),
        (0, 64, torch.float32, INT8),
    ],
)
def test_all_ranks_get_what_one_process_would_make(size, block_size, dtype, code_dtype):
    run = metered(shared_cluster(3), gathered, size, block_size, dtype, code_dtype)
    own = (numbers_of(size, rank, dtype) * (1 + rank) for rank in range(3))
    wanted = torch.cat([come_back(one, block_size, code_dtype) for one in own])
    for rank in range(3):
        assert torch.equal(run[rank], wanted)
        assert run[rank].dtype is dtype
        calls = run.communication.of(rank).calls
        assert len(calls) <= 2
        assert run.communication.sent_bytes(rank) == 2 * (size + 4 * -(-size // block_size))


class ByteGather:
    def __init__(self, me):
        self.members = Members.of(me, None)

    def allocate(self, size, *, dtype, device):
        return torch.empty(size, dtype=dtype, device=device)

    def __call__(self, output_tensor, input_tensor, group, async_op=False):
        output_tensor.copy_(all_gather_quantized(self.members, input_tensor, 16))


def step(me, own, x):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    layer = nn.Linear(8, 6, bias=False)
    layer.weight.data.copy_(own)
    fully_shard(layer, mesh=init_device_mesh("cpu", (me.world_size,)))
    layer.set_custom_all_gather(ByteGather(me))
    y = layer(x[me.rank])
    F.mse_loss(y, torch.ones_like(y)).backward()
    return y.detach(), layer.weight.grad.full_tensor(), layer.weight.full_tensor().detach()


def test_fully_shard_computes_with_the_rounded_weights_and_keeps_the_exact_ones():
    own, x = numbers_of(48).view(6, 8), numbers_of(2 * 4 * 8, 1).view(2, 4, 8)
    run = shared_cluster(2).run(step, own, x)
    weight = torch.cat([come_back(part.flatten(), 16).view_as(part) for part in own.chunk(2)]).requires_grad_()
    y = x @ weight.T
    F.mse_loss(y, torch.ones_like(y)).backward()
    for rank in range(2):
        out, gradient, kept = run[rank]
        torch.testing.assert_close(out, y[rank].detach())
        torch.testing.assert_close(gradient, weight.grad)
        assert torch.equal(kept, own)
