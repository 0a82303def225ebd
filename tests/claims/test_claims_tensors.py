"""The trials of cut matrices: their facts, and that other facts would give another verdict."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

from course_lib import claims
from course_lib.claims.models_and_machines import tensors


@pytest.fixture(scope="module")
def ranks(cluster2, cluster4):
    return {2: cluster2, 4: cluster4}.__getitem__


def test_what_one_layer_calls_depends_on_where_its_output_is_wanted(ranks):
    assert claims.trial("E10").run(ranks).facts == {
        "column cut, output whole": "all_gather",
        "column cut, output stays cut": "nothing",
        "row cut, output whole": "all_reduce",
        "row cut, output stays cut": "reduce_scatter",
    }


def test_every_block_calls_twice_each_way(ranks):
    assert claims.trial("E11").run(ranks).facts == {
        "calls of a block, forward": 2,
        "calls of a block, backward": 2,
        "calls forward, models of 1, 2 and 3 blocks": "3, 5, 7",
    }


def test_plain_tensors_stay_whole_and_dtensors_are_cut(ranks):
    assert claims.trial("B3").run(ranks).facts == {
        "weights of the layer": 32768,
        "weights on a rank, plain tensors": 32768,
        "collectives of plain tensors": 0,
        "weights on a rank, DTensors": 16384,
        "all-reduces of DTensors, by rank": 1,
    }


def whole_product(me, a, dtype):
    x, a = tensors._operands(dtype)
    return x @ a


def a_little_off(me, a, dtype):
    return whole_product(me, a, dtype) + 0.01


def off_in_short_floats(me, a, dtype):
    return whole_product(me, a, dtype) + 0.01 * (dtype == torch.float32)


def another_sum(me):
    x, a = tensors._operands(torch.float64)
    return x @ tensors.local_part(me, a, tensors._COLUMNS) + me.rank


def all_as_said(me, cut, out):
    x = torch.ones(2)
    if cut == "column":
        dist.all_gather([torch.empty(2) for _ in range(me.world_size)], x)
    else:
        dist.reduce_scatter(torch.empty(1), list(x.chunk(2)))


def all_otherwise(me, cut, out):
    dist.broadcast(torch.ones(1), src=0)


@pytest.mark.parametrize(
    ("name", "function", "instead", "verdict"),
    [
        ("B3", "_plainly", lambda me: 16384, "holds"),
        ("B3", "_as_dtensors", lambda me: 32768, "false"),
        ("B4", "_products", whole_product, "holds"),
        ("B4", "_products", a_little_off, "false"),
        ("B4", "_products", off_in_short_floats, "false"),
        ("E9", "_column_parts", another_sum, "false"),
        ("E10", "_one_layer", all_as_said, "holds"),
        ("E10", "_one_layer", all_otherwise, "false"),
        ("E11", "_block_forward", lambda me: None, "false"),
        ("E11", "_block_both", tensors._block_forward, "false"),
        ("E11", "_model_forward", lambda me, num_layers: dist.barrier(), "false"),
    ],
)
def test_other_facts_give_another_verdict(name, function, instead, verdict, ranks, monkeypatch):
    monkeypatch.setattr(tensors, function, instead)
    assert claims.trial(name).run(ranks).verdict == verdict
