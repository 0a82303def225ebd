"""What to type where a setting is met seldom: hybrid sharding, heads of their own size, offloading without sharding."""

from __future__ import annotations

from dataclasses import replace

import pytest

from course_lib.plan import MODELS, Job, Layout, cluster_of, to_type
from course_lib.plan.output.exporters import Typed

LLAMA = MODELS["llama-3-8b"]


def typed(program: str, layout: Layout, job: Job | None = None) -> Typed:
    (one,) = to_type(program, job or Job(LLAMA, 8192, 512), layout, cluster_of("8xh100", gpus=layout.gpus))
    return one


@pytest.mark.parametrize(
    ("layout", "instances"),
    [(Layout(dp=32, sharding=3, shard_size=8), 4), (Layout(cp=2, dp=16, sharding=3, shard_size=8), 4)],
)
def test_megatron_has_an_instance_for_each_group_that_shares(layout: Layout, instances: int) -> None:
    assert f"--num-distributed-optimizer-instances {instances}" in typed("megatron", layout).text
    whole = replace(layout, shard_size=0)
    assert "--num-distributed-optimizer-instances" not in typed("megatron", whole).text


def test_megatron_is_told_the_size_of_heads_that_is_not_the_usual() -> None:
    job = Job(replace(LLAMA, head_dim=256), 8192, 512)
    assert "--kv-channels 256" in typed("megatron", Layout(), job).text
    assert "--kv-channels" not in typed("megatron", Layout()).text


def test_deepspeed_offloads_states_that_are_shared_out_alone() -> None:
    refused = typed("deepspeed", Layout(offload=True))
    assert not refused.text
    assert "It offloads optimizer states only with ZeRO 1 or higher." in str(refused)
    assert '"offload_optimizer"' in typed("deepspeed", Layout(dp=8, sharding=1, offload=True)).text
