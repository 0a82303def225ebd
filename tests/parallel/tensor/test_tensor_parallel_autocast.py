"""Layers cut among ranks under autocast: the dtypes of the unsplit layers, and their values.

Small whole numbers are exact in bfloat16, and so are their sums up to 256: there the split layers agree to the bit.
"""

from __future__ import annotations

import copy

import pytest
import torch
from split_cases import mine
from torch import nn

from course_lib.cluster import Rank
from course_lib.models import Transformer, TransformerConfig, next_token_loss
from course_lib.models.transformer import Attention
from course_lib.parallel.tensor import (
    ColumnParallelLinear,
    HeadParallelAttention,
    RowParallelLinear,
    split_transformer,
    vocab_parallel_cross_entropy,
)

WAYS = [{}, {"sequence_parallel": True}, {"sequence_parallel": True, "regather": True}]
T, D, HIDDEN = 4, 6, 8


def whole_numbers(*shape: int, seed: int) -> torch.Tensor:
    return torch.randint(-1, 2, shape, generator=torch.Generator().manual_seed(seed)).float()


def columns_and_rows(me: Rank, way: dict, dtype: torch.dtype) -> list[bool]:
    up, down = nn.Linear(D, HIDDEN), nn.Linear(HIDDEN, D)
    for seed, parameter in enumerate([*up.parameters(), *down.parameters()]):
        parameter.data = whole_numbers(*parameter.shape, seed=seed).to(dtype)
    first = ColumnParallelLinear(me, up, **way)
    second = RowParallelLinear(me, down, sequence_parallel="sequence_parallel" in way)
    own = (lambda t: mine(me, t, 0)) if way else (lambda t: t)
    x = whole_numbers(T, D, seed=9).to(dtype).requires_grad_()
    part = own(x.detach()).clone().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        wanted, got = down(torch.relu(up(x))), second(torch.relu(first(part)))
    (wanted * 2).sum().backward()
    (got * 2).sum().backward()
    pairs = [
        (got, own(wanted)),
        (part.grad, own(x.grad)),
        (first.weight.grad, mine(me, up.weight.grad, 0)),
        (first.bias.grad, mine(me, up.bias.grad, 0)),
        (second.weight.grad, mine(me, down.weight.grad, 1)),
        (second.bias.grad, down.bias.grad),
    ]
    return [a.dtype == b.dtype and torch.equal(a, b) for a, b in pairs]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: ", ".join(way))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_columns_then_rows_are_the_unsplit_layers_under_autocast(cluster2, way, dtype):
    assert list(cluster2.call(columns_and_rows, (way, dtype))) == [[True] * 6] * 2  # float64 stays as it is


def attended(me: Rank) -> tuple:
    torch.manual_seed(0)
    whole = Attention(TransformerConfig(width=16, num_heads=4, bias=True))
    layer = HeadParallelAttention(me, whole)
    x = torch.randn(2, T, 16)
    part = x.clone().requires_grad_()
    x.requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        wanted, got = whole(x), layer(part)
    wanted.sum().backward()
    got.sum().backward()
    apart = max(
        far(got, wanted),
        far(part.grad, x.grad),
        far(layer.w_q.weight.grad, mine(me, whole.w_q.weight.grad, 0)),
    )
    return got.dtype, apart


def far(got: torch.Tensor, wanted: torch.Tensor) -> float:
    """The largest difference, as a share of the largest value."""
    return float((got - wanted).abs().max() / wanted.abs().max())


def test_attention_by_heads_works_under_autocast(cluster2):
    for dtype, apart in cluster2.call(attended):
        assert dtype == torch.bfloat16
        assert apart < 0.03, "bfloat16 keeps 8 bits"


def a_step(me: Rank, way: dict) -> tuple:
    torch.manual_seed(0)
    whole = Transformer(TransformerConfig(vocab_size=13, context_length=T, num_layers=1, width=16, num_heads=2))
    model = split_transformer(me, copy.deepcopy(whole), **way)
    tokens = torch.arange(2 * T).view(2, T) % 13
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(tokens)
        wanted = next_token_loss(whole(tokens), tokens)
        loss = vocab_parallel_cross_entropy(me, logits, tokens, vocab_size=13)
    loss.backward()
    wanted.backward()
    pairs = [
        (model.blocks[0].mlp.w_up.weight.grad, mine(me, whole.blocks[0].mlp.w_up.weight.grad, 0)),
        (model.head.w_vocab.weight.grad, mine(me, whole.head.w_vocab.weight.grad, 0)),
        (model.blocks[0].norm1.weight.grad, whole.blocks[0].norm1.weight.grad),
    ]
    return logits.dtype, far(loss, wanted), max(far(a, b) for a, b in pairs), {str(a.dtype) for a, _ in pairs}


@pytest.mark.parametrize("way", WAYS, ids=lambda way: ", ".join(way))
def test_a_split_transformer_trains_under_autocast(cluster2, way):
    for dtype, loss_apart, grads_apart, dtypes in cluster2.call(a_step, (way,)):
        assert dtype == torch.bfloat16
        assert loss_apart < 0.01
        assert grads_apart < 0.05
        assert dtypes == {"torch.float32"}
