"""torch.compile around a strategy's model: the same outputs and gradients, and something was compiled."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from strategy_runs import CONFIG, batch, layers, tokens
from torch import nn

from course_lib.layouts.sequence_cut import SequenceCut
from course_lib.meter import metered
from course_lib.models import Transformer
from course_lib.parallel.context import context_loss, split_context
from course_lib.parallel.data import DistributedDataParallel, SyncBatchNorm
from course_lib.parallel.experts import ExpertParallel, MixtureOfExperts
from course_lib.parallel.tensor import split_transformer, vocab_parallel_cross_entropy

pytestmark = [pytest.mark.xdist_group("parallel_compiled"), pytest.mark.limit_s(180.0)]


def whole():
    return Transformer(CONFIG).double()


def ddp(me):
    return DistributedDataParallel(me, nn.Sequential(*layers(3)))


def sync_batch_norm(me):
    return DistributedDataParallel(me, nn.Sequential(layers(1)[0], SyncBatchNorm(me, 6)))


def experts(me):
    return nn.Sequential(*layers(1), ExpertParallel(me, MixtureOfExperts(6, hidden=8, num_experts=5)), *layers(1))


def of_a_batch(me, model):
    x, y = batch(me)
    return F.mse_loss(model(x), y)


def of_tokens(me, model):
    given = tokens(me)
    return vocab_parallel_cross_entropy(me, model(given[:, :-1]), given[:, 1:], vocab_size=13)


def of_context(me, model):
    given = tokens(me)
    return context_loss(me, model(given[:, :-1]), given[:, 1:], SequenceCut(8, me.world_size))


MODELS = {
    "DDP": (ddp, of_a_batch),
    "SyncBatchNorm": (sync_batch_norm, of_a_batch),
    "experts": (experts, of_a_batch),
    "tensor": (lambda me: split_transformer(me, whole()), of_tokens),
    "sequence": (lambda me: split_transformer(me, whole(), sequence_parallel=True), of_tokens),
    "context, ring": (
        lambda me: split_context(me, whole(), SequenceCut(8, me.world_size), way="ring", tile=3),
        of_context,
    ),
    "context, all-to-all": (
        lambda me: split_context(me, whole(), SequenceCut(8, me.world_size), way="all_to_all", tile=3),
        of_context,
    ),
}


def largest_difference(me, name):
    """Of losses and gradients of two batches; and how many graphs there are."""
    import torch._dynamo as dynamo

    dynamo.reset()
    dynamo.utils.counters.clear()
    make, loss_of = MODELS[name]
    found = []
    for compiles in (False, True):
        torch.manual_seed(0)
        model = make(me)
        if compiles:
            model.compile(backend="eager")
        losses = []
        for _ in range(2):
            loss = loss_of(me, model)
            loss.backward()
            losses.append(loss.detach())
        found.append([*losses, *(p.grad for p in model.parameters() if p.grad is not None)])
    graphs = dynamo.utils.counters["stats"]["unique_graphs"]
    dynamo.reset()
    return max((a - b).abs().max().item() for a, b in zip(*found, strict=True)), graphs


@pytest.mark.parametrize(
    "name",
    [name if name == "DDP" else pytest.param(name, marks=pytest.mark.long) for name in MODELS],
)
def test_compiled_it_is_the_same_model(cluster2, name):
    run = metered(cluster2, largest_difference, name)
    assert run.leaks == ()
    for difference, graphs in run:
        assert difference < 1e-12
        assert graphs > 0
