"""The vocabulary cut among ranks: lookups and loss against the unsplit ones, and what the loss sends."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from split_cases import differ, drawn, mine
from torch import nn

from course_lib.cluster import Rank, RankFailed
from course_lib.meter import metered
from course_lib.parallel.tensor import (
    VocabParallelEmbedding,
    gather_logits,
    vocab_parallel_cross_entropy,
)

B, T, D = 2, 8, 12


# -- the vocabulary -------------------------------------------------------------------------------------------


def lookups(me: Rank, vocab_size: int) -> list[int]:
    torch.manual_seed(0)
    whole = nn.Embedding(vocab_size, D).double()
    layer = VocabParallelEmbedding(me, whole)
    tokens = torch.arange(3 * vocab_size).reshape(3, -1) % vocab_size
    weight = drawn(3, vocab_size, D)
    (whole(tokens) * weight).sum().backward()
    got = layer(tokens)
    (got * weight).sum().backward()
    return differ((got, whole(tokens)), (layer.weight.grad, mine(me, whole.weight.grad, 0)))


def losses(me: Rank, vocab_size: int, reduction: str) -> list[int]:
    logits, targets = drawn(B, T, vocab_size) * 30 + 500, torch.arange(B * T).reshape(B, T) % vocab_size
    logits.requires_grad_()
    wanted = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction=reduction)
    wanted = wanted.reshape(B, T) if reduction == "none" else wanted
    weight = drawn(*wanted.shape, seed=2)
    (wanted * weight).sum().backward()
    own = mine(me, logits.detach(), -1).clone().requires_grad_()
    got = vocab_parallel_cross_entropy(me, own, targets, vocab_size=vocab_size, reduction=reduction)
    (got * weight).sum().backward()
    gathered = gather_logits(me, own, vocab_size=vocab_size)
    return differ((got, wanted), (own.grad, mine(me, logits.grad, -1)), (gathered, logits))


@pytest.mark.parametrize("vocab_size", [8, 11])  # 11 does not divide
def test_a_cut_vocabulary_equals_the_unsplit_one(cluster2, cluster4, vocab_size):
    for cluster in (cluster2, cluster4):
        assert list(cluster.call(lookups, (vocab_size,))) == [[]] * cluster.world_size
        for reduction in ("mean", "sum", "none"):
            assert list(cluster.call(losses, (vocab_size, reduction))) == [[]] * cluster.world_size


def loss_of(me: Rank, vocab_size: int, dtype: torch.dtype = torch.float32) -> tuple:
    logits = torch.zeros(B, T, vocab_size // me.world_size, dtype=dtype, requires_grad=True)
    loss = vocab_parallel_cross_entropy(me, logits, torch.zeros(B, T, dtype=torch.int64), vocab_size=vocab_size)
    loss.backward()
    return loss.dtype, logits.grad.dtype


@pytest.mark.parametrize("vocab_size", [8, 4096])
def test_the_loss_sends_three_numbers_a_position_whatever_the_vocabulary(cluster4, vocab_size):
    run = metered(cluster4, loss_of, vocab_size)
    calls = run.communication.of(0).calls
    assert [(call.operation, call.size_bytes) for call in calls] == [
        ("all_reduce", 4 * B * T),
        ("all_reduce", 2 * 4 * B * T),
    ]
    assert run.communication.sent_bytes(0) == 2 * 3 / 4 * 3 * 4 * B * T


def test_the_loss_of_short_floats_is_computed_in_long_ones(cluster2):
    assert list(cluster2.call(loss_of, (8, torch.bfloat16))) == [(torch.float32, torch.bfloat16)] * 2


# -- bad input ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda me: VocabParallelEmbedding(me, nn.Embedding(8, 4, padding_idx=0)),
            "padding_idx.*plain nn.Embedding",
        ),
        (
            lambda me: VocabParallelEmbedding(me, nn.Embedding(8, 4))(torch.tensor([[3, 8]])),
            "token 8 is not in the vocabulary.*0 to 7. The nearest is 7",
        ),
        (
            lambda me: vocab_parallel_cross_entropy(me, torch.zeros(2, 4), torch.tensor([1, -100]), vocab_size=8),
            "token -100 is not in the vocabulary.*The nearest is 0",
        ),
        (
            lambda me: vocab_parallel_cross_entropy(me, torch.zeros(2, 8), torch.zeros(2).long(), vocab_size=8),
            "logits have 8 tokens on rank [01]; its share of vocab_size=8 among 2 ranks is 4",
        ),
        (
            lambda me: vocab_parallel_cross_entropy(
                me, torch.zeros(2, 4), torch.zeros(2).long(), vocab_size=8, reduction="average"
            ),
            "reduction='average' is not known; use one of mean, sum, none",
        ),
    ],
)
def test_bad_input_gets_a_sentence(cluster2, call, message):
    with pytest.raises(RankFailed, match=f"(?s)ValueError.*{message}"):
        cluster2.call(call)
