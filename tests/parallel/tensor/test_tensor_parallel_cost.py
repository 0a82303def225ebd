"""What a split block sends and keeps: the formulas, the published ones, and the meter and ledger of real ranks."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from course_lib.cluster import Rank
from course_lib.cost import (
    block_collectives,
    collectives_sent_bytes,
    collectives_time_s,
    explained_activations,
    published_activation_bytes,
    split_transformer_collectives,
)
from course_lib.cost.single_device.activations import block_activations
from course_lib.layouts.link import Link
from course_lib.meter import MemoryLedger, metered
from course_lib.models import Transformer, TransformerBlock, TransformerConfig
from course_lib.parallel.tensor import split_block, split_transformer, vocab_parallel_cross_entropy

CONFIG = TransformerConfig(vocab_size=12, context_length=8, num_layers=2, width=16, num_heads=4, hidden=24, bias=True)
WAYS = [{}, {"sequence_parallel": True}, {"sequence_parallel": True, "regather": True}]
B, T, D = 3, 8, 16
STREAM_BYTES = 4 * B * T * D


def block_step(me: Rank, config: TransformerConfig, way: dict) -> None:
    block = split_block(me, TransformerBlock(config), **way)
    rows = T // me.world_size if way else T
    block(torch.ones(B, rows, D, requires_grad=True)).sum().backward()


def model_step(me: Rank, config: TransformerConfig, way: dict) -> None:
    model = split_transformer(me, Transformer(config), **way)
    tokens = torch.zeros(B, T, dtype=torch.int64)
    vocab_parallel_cross_entropy(me, model(tokens), tokens, vocab_size=12).backward()


def whole_bytes(call, num_ranks: int) -> int:
    """The meter notes a rank's own input: of an all-gather that is a part."""
    return call.size_bytes * (num_ranks if call.operation == "all_gather" else 1)


@pytest.mark.first_cases(4)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("step", [block_step, model_step])
def test_the_meter_sees_the_collectives_of_theory(cluster2, cluster4, step, bias, way):
    config = replace(CONFIG, bias=bias)
    formula = block_collectives if step is block_step else split_transformer_collectives
    wanted = formula(config, batch_size=B, **way)
    for cluster in (cluster2, cluster4):
        communication = metered(cluster, step, config, way).communication
        n = cluster.world_size
        for rank in range(n):
            calls = communication.of(rank).calls
            seen = [(call.operation, whole_bytes(call, n)) for call in calls]
            if step is block_step:  # in the order in which they start
                assert seen == [(one.collective, one.size_bytes) for one in wanted]
            else:  # the autograd engine is free to choose which branch it walks first
                assert sorted(seen) == sorted((one.collective, one.size_bytes) for one in wanted)
            sent = sum(sum(call.sent_bytes.values()) for call in calls)
            gloo_extra = sum(one.sent_bytes(n) for one in wanted if one.collective == "reduce_scatter")
            assert sent == collectives_sent_bytes(wanted, n) + ("gloo" in str(cluster)) * gloo_extra


def test_a_block_sends_two_all_reduces_each_way_and_sequence_parallelism_the_same_bytes():
    plain = block_collectives(CONFIG, batch_size=B)
    assert [(one.collective, one.is_backward) for one in plain] == [("all_reduce", False)] * 2 + [
        ("all_reduce", True)
    ] * 2
    assert collectives_sent_bytes(plain, 4) == 4 * 2 * 3 / 4 * STREAM_BYTES
    along = block_collectives(replace(CONFIG, bias=False), batch_size=B, sequence_parallel=True)
    stream = [one for one in along if one.size_bytes == STREAM_BYTES]
    assert collectives_sent_bytes(stream, 4) == collectives_sent_bytes(plain, 4)
    small = [(one.where, one.size_bytes) for one in along if one.size_bytes != STREAM_BYTES]
    assert small == [("norm2 gradients", 4 * D), ("norm1 gradients", 4 * D)]
    anew = block_collectives(CONFIG, batch_size=B, sequence_parallel=True, regather=True)
    assert sum("anew" in one.where for one in anew) == 2


def test_time_adds_up():
    link = Link(latency_s=1e-3, bandwidth_bytes_per_s=1e6)
    one_s = 2 * 3 * (1e-3 + STREAM_BYTES / 4 / 1e6)  # a ring of 4: 6 messages of a quarter
    time_s = collectives_time_s(block_collectives(CONFIG, batch_size=B), link, num_ranks=4)
    assert time_s == pytest.approx(4 * one_s)


# -- memory ---------------------------------------------------------------------------------------------------

SIZES = {"length": 2048, "batch_size": 4, "width": 1024, "num_heads": 16}
SBH = 2048 * 4 * 1024
SCORES = 5 * 16 * 2048 / 1024  # 5 a s / h


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, SBH * (34 + SCORES)),
        ({"num_ranks": 8}, SBH * (10 + 24 / 8 + SCORES / 8)),
        ({"num_ranks": 8, "sequence_parallel": True}, SBH * (34 / 8 + SCORES / 8)),
    ],
)
def test_the_published_formulas(options, wanted):
    assert published_activation_bytes(**SIZES, **options) == wanted
    config = TransformerConfig(context_length=2048, width=1024, num_heads=16)
    terms = explained_activations(config, batch_size=4, **options, regather="sequence_parallel" in options)
    assert sum(term.published_bytes for term in terms) == wanted
    assert all(term.why for term in terms)


def kept_by_a_block(me: Rank, config: TransformerConfig, way: dict) -> int:
    block = split_block(me, TransformerBlock(config), **way)
    x = torch.ones(B, T // me.world_size if way else T, D, requires_grad=True)
    with MemoryLedger(block) as ledger:
        y = block(x)
        kept = ledger.mark("after forward").by_label
    return kept["activation"] + y.nbytes  # and its input, which is as large as the output


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("changes", [{}, {"bias": False}, {"num_kv_heads": 2, "hidden": 26}])
def test_the_ledger_agrees_to_the_byte(cluster2, changes, way):
    config = replace(CONFIG, **changes)
    terms = explained_activations(config, batch_size=B, num_ranks=2, **way)
    wanted = sum(term.course_bytes for term in terms)
    assert list(cluster2.call(kept_by_a_block, (config, way))) == [wanted] * 2


def test_the_unsplit_block_is_that_of_the_other_formula():
    terms = explained_activations(CONFIG, batch_size=B)
    assert sum(term.course_bytes for term in terms) == sum(
        saved.size_bytes for saved in block_activations(CONFIG, B, T, False)
    )
    with pytest.raises(ValueError, match=r"dropout is 0.1.*set it to 0"):
        explained_activations(replace(CONFIG, dropout=0.1), batch_size=B)
    with pytest.raises(ValueError, match="num_ranks=0 does not work"):
        published_activation_bytes(**SIZES, num_ranks=0)
