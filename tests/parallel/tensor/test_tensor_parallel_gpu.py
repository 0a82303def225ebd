"""A transformer cut inside its layers, on GPUs: two ranks on one device, and NCCL between two devices."""

from __future__ import annotations

import copy

import pytest
import torch

from course_lib.cluster import Cluster, Rank
from course_lib.devices import machine
from course_lib.models import Transformer, TransformerConfig, next_token_loss
from course_lib.parallel.tensor import gather_state, split_transformer, vocab_parallel_cross_entropy

CONFIG = TransformerConfig(vocab_size=13, context_length=8, num_layers=2, width=16, num_heads=4, hidden=22)


def three_steps(me: Rank, sequence_parallel: bool) -> tuple[float, str, str]:
    """How far the weights of this split model are from those of the unsplit one on the same device."""
    torch.manual_seed(0)
    whole = Transformer(CONFIG).double().to(me.device)
    split = split_transformer(me, copy.deepcopy(whole), sequence_parallel=sequence_parallel)
    tokens = torch.randint(13, (2, 9), device=me.device, generator=torch.Generator(me.device).manual_seed(1))
    for model in (whole, split):
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        for _ in range(3):
            optimizer.zero_grad()
            logits = model(tokens[:, :-1])
            if model is whole:
                next_token_loss(logits, tokens[:, 1:]).backward()
            else:
                vocab_parallel_cross_entropy(me, logits, tokens[:, 1:], vocab_size=13).backward()
            optimizer.step()
    gathered = gather_state(me, split)
    apart = max((gathered[name].to(me.device) - p).abs().max().item() for name, p in whole.state_dict().items())
    return apart, str(me.device)[:4], me.backend


def check_on(cluster: Cluster, device: str, backend: str) -> None:
    for sequence_parallel in (False, True):
        for apart, *place in cluster.run(three_steps, sequence_parallel):
            assert apart < 1e-10
            assert place == [device, backend]


def test_two_ranks_by_gloo_wherever_they_compute_here(clusters):
    check_on(clusters(2), "cuda" if machine().devices else "cpu", "gloo")


@pytest.mark.gpu
@pytest.mark.limit_s(120)
@pytest.mark.skipif(len(machine().devices) < 1, reason="needs a GPU")
def test_two_ranks_share_a_model_on_one_gpu():
    with Cluster(2, backend="gloo") as cluster:
        check_on(cluster, "cuda", "gloo")


@pytest.mark.multigpu
@pytest.mark.limit_s(120)
@pytest.mark.skipif(len(machine().devices) < 2, reason="needs two GPUs")
def test_two_gpus_share_a_model_over_nccl():
    with Cluster(2, backend="nccl") as cluster:
        check_on(cluster, "cuda", "nccl")
