"""What DDP from scratch sends, and when: buckets, their order, and all-reduces that begin while backward goes on."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.distributed as dist
from torch import nn

from course_lib.cost import ddp_buckets
from course_lib.meter import expect, metered
from course_lib.models import Transformer, TransformerConfig, next_token_loss
from course_lib.parallel.data import (
    DistributedDataParallel,
    all_reduce_buckets,
    all_reduce_gradients,
    assign_buckets,
)

pytestmark = [
    pytest.mark.xdist_group("parallel_ddp"),
    pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning"),
]

SMALL = {"bucket_size_bytes": 2000, "first_bucket_size_bytes": 300}  # several buckets in a small model


def one_backward(me, way: str, overlap: bool = True) -> dict:
    """Sizes of gradients, buckets and all-reduces; ``early``: those that had set out when the last gradient came."""
    torch.manual_seed(0)
    model = wrapped = Transformer(
        TransformerConfig(vocab_size=11, context_length=6, num_layers=2, width=8, num_heads=2)
    )
    if way == "ddp":
        wrapped = DistributedDataParallel(me, model, overlap=overlap, **SMALL)
    buckets = wrapped.buckets if way == "ddp" else assign_buckets(model.parameters(), **SMALL)
    sent: list[int] = []
    early: list[int] = []
    model.stem.positions.weight.register_hook(lambda _: early.extend(sent))
    tokens = torch.randint(11, (2, 6), generator=torch.Generator().manual_seed(me.rank))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dist, "all_reduce", noting(dist.all_reduce, sent))
        next_token_loss(wrapped(tokens), tokens).backward()
        if way == "a":
            all_reduce_gradients(me, model)
        elif way == "b":
            all_reduce_buckets(me, buckets)
    return {
        "gradients": [parameter.nbytes for parameter in model.parameters()],
        "buckets": [bucket.size_bytes for bucket in buckets],
        "sent": sent,
        "early": early,
    }


def noting(all_reduce, sizes: list[int]):
    def noted(tensor, *args, **kwargs):
        sizes.append(tensor.nbytes)
        return all_reduce(tensor, *args, **kwargs)

    return noted


@pytest.mark.parametrize("world_size", [2, 3])
@pytest.mark.parametrize("way", ["a", "b", "ddp"])
def test_a_backward_sends_2_n_minus_1_nths_of_the_gradients_a_bucket_at_a_time(clusters, world_size, way):
    run = metered(clusters(world_size), one_backward, way)
    got, n = run[0], world_size
    limits = {
        "bucket_cap_bytes": SMALL["bucket_size_bytes"],
        "first_bucket_bytes": SMALL["first_bucket_size_bytes"],
    }
    assert got["buckets"] == list(ddp_buckets(got["gradients"], **limits))
    assert len(got["buckets"]) > 3
    assert got["sent"] == (got["gradients"] if way == "a" else got["buckets"])
    reduced = run.communication.of(operation="all_reduce")
    assert reduced.by_operation() == {"all_reduce": n * len(got["sent"])}
    # a buffer that does not divide by n is cut unevenly, so a rank may send a few bytes more or less
    assert not expect(reduced, sent_bytes=2 * (n - 1) * sum(got["gradients"]) // n, tolerance=0.02)


def test_all_reduces_start_before_the_last_gradient_is_computed(clusters):
    """By the order of events: what had set out when backward reached the first layer."""
    both = (clusters(2).call(one_backward, ("ddp", overlap)) for overlap in (True, False))
    for overlapped, late in zip(*both, strict=True):
        assert overlapped["early"] == overlapped["buckets"][:-1]
        assert late["early"] == []
        assert late["sent"] == overlapped["sent"]


class ThreeLayers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.three = (nn.Linear(4, 4).double() for _ in range(3))

    def forward(self, x, order):
        for name in order:
            x = getattr(self, name)(x)
        return x


def in_another_order(me) -> tuple[list[int], float]:
    """Each rank runs the layers in an order of its own, so its buckets fill in an order of their own."""
    torch.manual_seed(0)
    model = ThreeLayers()
    whole = copy.deepcopy(model)
    ddp = DistributedDataParallel(me, model, bucket_size_bytes=1, first_bucket_size_bytes=1)
    x = torch.randn(3, 4, dtype=torch.float64)
    orders = [("three", "two", "one"), ("one", "three", "two"), ("two", "one", "three")]
    ddp(x, orders[me.rank]).square().mean().backward()
    torch.stack([whole(x, order).square().mean() for order in orders]).mean().backward()
    pairs = zip(model.parameters(), whole.parameters(), strict=True)
    return [len(b.parameters) for b in ddp.buckets], max(float((p.grad - q.grad).abs().max()) for p, q in pairs)


def test_buckets_start_in_the_same_order_on_every_rank(clusters):
    for buckets, error in clusters(3).call(in_another_order):
        assert buckets == [1] * 6
        assert error < 1e-12


def test_buckets_take_one_dtype_each_in_reverse_order_and_leave_out_what_is_frozen():
    weights = [nn.Parameter(torch.zeros(size)) for size in (10, 20, 30, 40)]
    weights[2].requires_grad_(False)
    halves = [nn.Parameter(torch.zeros(size, dtype=torch.bfloat16)) for size in (5, 6)]
    mixed = [weights[0], halves[0], *weights[1:], halves[1]]
    buckets = assign_buckets(mixed, bucket_size_bytes=100, first_bucket_size_bytes=100)
    assert [[p.numel() for p in b.parameters] for b in buckets] == [[40], [20, 10], [6, 5]]
    assert [b.flat.dtype for b in buckets] == [torch.float32, torch.float32, torch.bfloat16]
    assert [b.size_bytes for b in buckets] == [160, 120, 22]
    assert all(view.shape == p.shape for b in buckets for view, p in zip(b.views, b.parameters, strict=True))
    [together] = assign_buckets(mixed, average_in_float32=True)
    assert [p.numel() for p in together.parameters] == [6, 40, 20, 5, 10]
    assert together.flat.dtype == torch.float32
    with pytest.raises(ValueError, match=r"bucket_size_bytes=0 does not work.*nearest that works is 1"):
        assign_buckets(mixed, bucket_size_bytes=0)
    with pytest.raises(ValueError, match="first_bucket_size_bytes"):
        assign_buckets(mixed, first_bucket_size_bytes=2.5)
