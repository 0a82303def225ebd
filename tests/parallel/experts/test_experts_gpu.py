"""Experts shared out on GPUs: two ranks on one device, and NCCL between two devices."""

from __future__ import annotations

import pytest
import torch
from expert_cases import WIDTH, layer_of, tokens_of

from course_lib.cluster import Cluster, Rank
from course_lib.devices import machine
from course_lib.parallel.experts import ExpertParallel

pytestmark = pytest.mark.xdist_group("experts")


def forward_and_backward(me: Rank) -> tuple[float, float, str, str]:
    """How far outputs, and the gradients of the input, are from those of the unsplit layer on the same device."""
    whole = layer_of(num_experts=5).to(me.device)
    split = ExpertParallel(me, whole)
    tokens = tokens_of(7 - 2 * me.rank, seed=me.rank).to(me.device)
    ours, theirs = (tokens.clone().requires_grad_() for _ in range(2))
    y, wanted = split(ours), whole(theirs)
    y.square().sum().backward()
    wanted.square().sum().backward()
    assert y.shape == (7 - 2 * me.rank, WIDTH)
    apart = (y - wanted).abs().max().item(), (ours.grad - theirs.grad).abs().max().item()
    torch.distributed.barrier()
    return *apart, str(me.device)[:4], me.backend


def check_on(cluster: Cluster, device: str, backend: str) -> None:
    for *apart, place, by in cluster.run(forward_and_backward):
        assert max(apart) < 1e-10
        assert (place, by) == (device, backend)


def test_two_ranks_by_gloo_wherever_they_compute_here(clusters):
    check_on(clusters(2), "cuda" if machine().devices else "cpu", "gloo")


@pytest.mark.gpu
@pytest.mark.limit_s(120)
@pytest.mark.skipif(len(machine().devices) < 1, reason="needs a GPU")
def test_two_ranks_share_the_experts_on_one_gpu():
    with Cluster(2, backend="gloo") as cluster:
        check_on(cluster, "cuda", "gloo")


@pytest.mark.multigpu
@pytest.mark.limit_s(120)
@pytest.mark.skipif(len(machine().devices) < 2, reason="needs two GPUs")
def test_two_gpus_share_the_experts_over_nccl():
    with Cluster(2, backend="nccl") as cluster:
        check_on(cluster, "cuda", "nccl")
