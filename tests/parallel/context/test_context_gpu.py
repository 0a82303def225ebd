"""Attention over a cut sequence on GPUs: two ranks on one device, and NCCL between two devices."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from course_lib.cluster import Cluster, Rank
from course_lib.devices import machine
from course_lib.layouts.sequence_cut import SequenceCut
from course_lib.parallel.context import all_to_all_attention, own_positions, ring_attention

pytestmark = pytest.mark.xdist_group("context")

CUT = SequenceCut(15, 2)


def apart_from_one(me: Rank) -> tuple[float, str, str]:
    """How far outputs and gradients are from those of the whole sequence on the same device."""
    generator = torch.Generator(me.device).manual_seed(1)
    q, k, v, grad = (
        torch.randn(2, 4, 15, 8, device=me.device, dtype=torch.float64, generator=generator) for _ in range(4)
    )
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    out = F.scaled_dot_product_attention(*leaves, is_causal=True)
    wanted = [out.detach(), *torch.autograd.grad(out, leaves, grad)]
    apart = 0.0
    for attention in (ring_attention, all_to_all_attention):
        mine = [own_positions(CUT, me.rank, x, dim=2).requires_grad_() for x in (q, k, v)]
        out = attention(me, *mine, CUT)
        found = [out.detach(), *torch.autograd.grad(out, mine, own_positions(CUT, me.rank, grad, dim=2))]
        for got, whole in zip(found, wanted, strict=True):
            apart = max(apart, (got - own_positions(CUT, me.rank, whole, dim=2)).abs().max().item())
    return apart, str(me.device)[:4], me.backend


def check_on(cluster: Cluster, device: str, backend: str) -> None:
    for apart, *place in cluster.run(apart_from_one):
        assert apart < 1e-10
        assert place == [device, backend]


def test_two_ranks_by_gloo_wherever_they_compute_here(clusters):
    check_on(clusters(2), "cuda" if machine().devices else "cpu", "gloo")


@pytest.mark.gpu
@pytest.mark.limit_s(120)
@pytest.mark.skipif(len(machine().devices) < 1, reason="needs a GPU")
def test_two_ranks_share_a_sequence_on_one_gpu():
    with Cluster(2, backend="gloo") as cluster:
        check_on(cluster, "cuda", "gloo")


@pytest.mark.multigpu
@pytest.mark.limit_s(120)
@pytest.mark.skipif(len(machine().devices) < 2, reason="needs two GPUs")
def test_two_gpus_share_a_sequence_over_nccl():
    with Cluster(2, backend="nccl") as cluster:
        check_on(cluster, "cuda", "nccl")
