"""Random numbers under tensor parallelism: the same where ranks hold the same, each rank's own where they do not."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from course_lib.cluster import Rank
from course_lib.models import Transformer, TransformerBlock, TransformerConfig
from course_lib.models.transformer import Attention
from course_lib.parallel.tensor import (
    HeadParallelAttention,
    OwnDropout,
    Region,
    own_random_numbers,
    split_block,
    split_transformer,
)


def masks(me: Rank) -> dict:
    torch.manual_seed(5)
    region, x = Region(me), torch.ones(1000)
    own, common = OwnDropout(region, 0.5), nn.Dropout(0.5)
    seen = {"common": common(x).tolist(), "own": own(x).tolist(), "own again": own(x).tolist()}
    with own_random_numbers(region):
        seen["in a block"] = torch.rand(5).tolist()
    seen["common after"] = common(x).tolist()
    seen["in evaluation"] = own.eval()(x).tolist()
    torch.manual_seed(5)
    common(x)
    seen["repeated"] = own.train()(x).tolist()
    return seen


def test_masks_differ_inside_and_agree_outside(cluster2):
    one, other = cluster2.call(masks)
    for name in ("common", "common after", "in evaluation"):
        assert one[name] == other[name]
    for name in ("own", "own again", "in a block"):
        assert one[name] != other[name]
    assert one["own"] != one["own again"]
    assert one["common"] != one["common after"]
    assert one["own"] == one["repeated"]
    assert one["in evaluation"] == [1.0] * 1000
    kept_by_both = sum(a * b > 0 for a, b in zip(one["own"], other["own"], strict=True))
    assert 180 < kept_by_both < 320  # a quarter of 1000: the masks know nothing of each other


def dropped_block(me: Rank, sequence_parallel: bool) -> tuple:
    """The output of a block in training, as this rank has it, and the state of the generator afterwards."""
    torch.manual_seed(0)
    config = TransformerConfig(width=8, num_heads=2, dropout=0.4)
    block = split_block(me, TransformerBlock(config), sequence_parallel=sequence_parallel)
    x = torch.rand(4, 8 // me.world_size if sequence_parallel else 8, 8)  # the same on both ranks
    y = block(x)
    again = torch.utils.checkpoint.checkpoint(block, x.clone().requires_grad_(), use_reentrant=False)
    again.sum().backward()  # recomputes, with the same masks, or PyTorch objects
    return y.tolist(), torch.get_rng_state().sum().item()


def test_a_block_with_dropout_keeps_what_all_ranks_share_the_same(cluster2):
    (y0, state0), (y1, state1) = cluster2.call(dropped_block, (False,))
    assert y0 == y1
    assert state0 == state1
    (y0, state0), (y1, state1) = cluster2.call(dropped_block, (True,))
    assert state0 == state1
    assert y0 != y1  # each rank has positions, and masks, of its own


def attention_weights_dropped(me: Rank) -> tuple:
    """w_out is the identity on this rank's heads, so each rank's heads show in their own columns."""
    torch.manual_seed(0)
    whole = Attention(TransformerConfig(width=8, num_heads=2, dropout=0.5))
    with torch.no_grad():
        whole.w_k.weight.zero_()  # equal scores: heads differ by their masks alone
        whole.w_v.weight.copy_(torch.ones(8, 8))
        whole.w_out.weight.copy_(torch.eye(8))
    layer = HeadParallelAttention(me, whole)
    layer.dropout = nn.Identity()
    y = layer(torch.ones(1, 16, 8))
    return y[0, :, 0].tolist(), y[0, :, 4].tolist()


def test_heads_on_different_ranks_drop_different_weights(cluster2):
    seen = list(cluster2.call(attention_weights_dropped))
    assert seen[0] == seen[1]  # after the all-reduce both ranks have both heads
    assert seen[0][0] != seen[0][1]


def masks_of_a_model(me: Rank, sequence_parallel: bool) -> dict[str, list]:
    """What each dropout of a model drops, by name; a mask of zeros and ones over what the rank has there."""
    torch.manual_seed(0)
    config = TransformerConfig(vocab_size=8, context_length=8, num_layers=1, width=16, num_heads=2, dropout=0.5)
    model = split_transformer(me, Transformer(config), sequence_parallel=sequence_parallel)
    model.blocks[0].attention.attention_dropout_p = 0.0  # so that zeros come from these three alone
    masks = {}
    for name, module in model.named_modules():
        if name.endswith("dropout"):
            module.register_forward_hook(lambda _, __, y, name=name: masks.update({name: (y != 0).tolist()}))
    model(torch.arange(16).view(2, 8) % 8)
    return masks


@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_every_dropout_of_a_model_draws_as_its_place_demands(cluster2, sequence_parallel):
    """The residual stream is common to all ranks; with sequence parallelism each has positions of its own."""
    one, other = cluster2.call(masks_of_a_model, (sequence_parallel,))
    assert len(one) == 3  # after the embedding, after attention, after the MLP
    assert {name: one[name] != other[name] for name in one} == dict.fromkeys(one, sequence_parallel)
