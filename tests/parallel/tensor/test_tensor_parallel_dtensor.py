"""A block, and a whole model, beside the same cut by DTensor's ``parallelize_module``."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from course_lib.authoring.bench.strategies.tensor import dtensor_block
from course_lib.cluster import Rank
from course_lib.models import Transformer, TransformerBlock, TransformerConfig, next_token_loss
from course_lib.parallel.tensor import (
    gather_state,
    split_block,
    split_transformer,
    vocab_parallel_cross_entropy,
)

CONFIG = TransformerConfig(vocab_size=16, context_length=8, num_layers=2, width=16, num_heads=4, hidden=24, bias=True)


def beside_dtensor(me: Rank, sequence_parallel: bool) -> float:
    """The largest difference to DTensor in output, gradients, and weights after 5 steps of AdamW, of one block."""
    torch.manual_seed(0)
    whole = TransformerBlock(CONFIG).double()
    theirs = dtensor_block(me, copy.deepcopy(whole), sequence_parallel=sequence_parallel)
    ours = split_block(me, whole, sequence_parallel=sequence_parallel)
    x = torch.randn(2, 8, 16, dtype=torch.float64)
    share = 8 // me.world_size
    rows = slice(share * me.rank, share * (me.rank + 1)) if sequence_parallel else slice(None)
    largest, optimizers = 0.0, [torch.optim.AdamW(block.parameters(), lr=1e-2) for block in (theirs, ours)]
    for _ in range(5):
        outputs, grads = [], []
        for block, optimizer in zip((theirs, ours), optimizers, strict=True):
            mine = x[:, rows].clone().requires_grad_()
            y = block(mine)
            y = y.full_tensor() if hasattr(y, "full_tensor") else y
            optimizer.zero_grad()
            y[:, rows if y.size(1) == 8 else slice(None)].square().mean().backward()
            optimizer.step()
            outputs.append(y.detach())
            grads.append(mine.grad)
        largest = max(largest, *((a - b).abs().max().item() for a, b in (outputs, grads)))
    state = gather_state(me, ours)
    for name, value in theirs.state_dict().items():
        full = value.full_tensor() if hasattr(value, "full_tensor") else value
        largest = max(largest, (full - state[name]).abs().max().item())
    return largest


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_a_block_equals_dtensors(cluster2, cluster4, sequence_parallel):
    for cluster in (cluster2, cluster4):
        assert max(cluster.call(beside_dtensor, (sequence_parallel,))) < 1e-10


def model_beside_dtensor(me: Rank) -> float:
    """The largest difference to DTensor of a whole model: losses, and weights after 5 steps of AdamW."""
    torch.manual_seed(0)
    whole = Transformer(CONFIG).double()
    theirs, ours = copy.deepcopy(whole), split_transformer(me, whole)
    for block in theirs.blocks:
        dtensor_block(me, block)
    plan = {
        "stem.tokens": RowwiseParallel(input_layouts=Replicate()),
        "head.w_vocab": ColwiseParallel(output_layouts=Replicate()),
    }
    parallelize_module(theirs, init_device_mesh(me.device.type, (me.world_size,)), plan)
    optimizers = [torch.optim.AdamW(model.parameters(), lr=1e-2) for model in (theirs, ours)]
    largest = 0.0
    for tokens in torch.randint(16, (5, 2, 9), generator=torch.Generator().manual_seed(1)):
        inputs, targets = tokens[:, :-1], tokens[:, 1:]
        losses = (
            next_token_loss(theirs(inputs), targets),
            vocab_parallel_cross_entropy(me, ours(inputs), targets, vocab_size=16),
        )
        for loss, optimizer in zip(losses, optimizers, strict=True):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        largest = max(largest, abs(losses[0].item() - losses[1].item()))
    state = gather_state(me, ours)
    for name, value in theirs.state_dict().items():
        full = value.full_tensor() if isinstance(value, DTensor) else value
        largest = max(largest, (full - state[name]).abs().max().item())
    return largest


def test_a_model_equals_dtensors(cluster2):
    assert max(cluster2.call(model_beside_dtensor)) < 1e-10
