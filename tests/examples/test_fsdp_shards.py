"""How the sharded program's model begins: cut before it has memory, with the same weights on any number of ranks."""

from __future__ import annotations

import pytest
import torch
from fsdp_runs import whole
from torch import nn

from course_lib.examples.train_fsdp.settings import parse_arguments
from course_lib.examples.train_fsdp.shards import fill, make_model, make_optimizer
from course_lib.examples.train_fsdp.transformer import Transformer

pytest_plugins = ("fsdp_fixtures",)
pytestmark = [
    pytest.mark.xdist_group("example_train_fsdp"),
    pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning"),
]


def start_of(me, words):
    model = make_model(me, parse_arguments(words.split()))
    parts = {name: p.to_local().numel() for name, p in model.named_parameters()}
    return whole(model), parts


def test_a_model_begins_with_the_same_weights_on_any_number_of_ranks(clusters, words):
    args = parse_arguments(words.split())
    plain = Transformer(args.layers, args.width, args.heads, args.context)
    fill(plain, args.seed)
    for world_size in (1, 2, 4):
        for weights, _ in clusters(world_size).run(start_of, words):
            for name, parameter in plain.named_parameters():
                assert torch.equal(weights[name], parameter), name
    (other, _), *_ = clusters(2).run(start_of, f"{words} --seed 1")
    assert not torch.equal(other["embedding.weight"], plain.embedding.weight)
    matrices = [p for name, p in plain.named_parameters() if "norm" not in name]
    assert len({p.flatten()[0].item() for p in matrices}) == len(matrices)  # each drew values of its own


def test_a_rank_holds_its_part_and_no_more(cluster4, words):
    shares = [parts for _, parts in cluster4.run(start_of, words)]
    assert [parts["embedding.weight"] for parts in shares] == [256 * 6 // 4] * 4
    assert [parts["norm.weight"] for parts in shares] == [2, 2, 2, 0]


def test_no_rank_makes_the_whole_model_before_it_is_cut(cluster2, words):
    def seen(me):
        devices = []
        make = nn.Parameter.__new__

        def note(cls, data=None, requires_grad=True):
            devices.append(str(data.device))
            return make(cls, data, requires_grad)

        nn.Parameter.__new__ = note
        try:
            model = make_model(me, parse_arguments(words.split()))
        finally:
            nn.Parameter.__new__ = make
        after = {p.to_local().device.type for p in model.parameters()}
        return devices[: len(list(model.parameters()))], after

    assert list(cluster2.run(seen)) == [(["meta"] * 15, {"cpu"})] * 2


def test_norms_are_not_pulled_and_matrices_are():
    model = Transformer(1, 8, 2, 4)
    decayed, norms = make_optimizer(model, parse_arguments(["--weight-decay", "0.3"])).param_groups
    assert (decayed["weight_decay"], norms["weight_decay"]) == (0.3, 0.0)
    assert {id(p) for p in norms["params"]} == {id(p) for n, p in model.named_parameters() if "norm" in n}
    assert len(decayed["params"]) + len(norms["params"]) == len(list(model.parameters()))
