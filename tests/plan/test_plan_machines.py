"""Machines as the planner sees them: domains wider than a node, links through the host, smaller numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from course_lib.cost.collectives.machines import LINKS, MACHINES
from course_lib.plan import (
    MODELS,
    Constants,
    Job,
    Layout,
    Software,
    cluster_of,
    list_layouts,
    profile_of,
    step_parts,
)
from course_lib.plan.estimate.links import Group
from course_lib.plan.search.constraints import why_illegal

JOB = Job(MODELS["llama-3-70b"], seq=8192, batch=144)
C = Constants()


def test_every_machine_makes_a_cluster_of_its_own_numbers() -> None:
    for name, spec in MACHINES.items():
        found = cluster_of(name)
        assert found.gpus == found.domain_size == spec.num_devices
        assert found.memory_bytes == spec.memory_bytes
        assert found.domain_bandwidth_bytes_per_s == spec.intra.bandwidth_bytes_per_s
        ports = spec.ports_per_node * spec.inter.bandwidth_bytes_per_s
        assert found.node_bandwidth_bytes_per_s == ports
        assert spec.source
        assert found.product_flops_per_s == 0
    assert cluster_of("8xb200").memory_bytes == 183359 * 2**20  # as the driver says


def test_no_two_machines_end_in_the_same_word() -> None:
    """By that word, the GPU's, people name a machine, and its watts and a calibrated GPU's memory are looked up."""
    gpus = [name.split()[-1] for name in MACHINES]
    assert len(set(gpus)) == len(gpus), "give the new machine a name whose last word is its own: 8x H100-NVL"


def test_a_tensor_axis_of_sixteen_is_legal_and_fast_where_72_gpus_are_one_domain() -> None:
    layout = Layout(tp=16, dp=9, micro_batch=1, sharding=1, sequence_parallel=True)
    wide, narrow = cluster_of("72xgb200"), cluster_of("8xb200", gpus=144)
    assert why_illegal(Job(JOB.model, 8192, 9), layout, 144) is None
    two_racks = cluster_of("72xgb200", nodes=2)
    inside, outside = (step_parts(JOB, layout, cluster, C, Software()).tensor_s for cluster in (two_racks, narrow))
    assert outside > 2 * inside  # two nodes' ports against one domain's links
    assert Group.of(wide, C, 64, 1).bandwidth_bytes_per_s == pytest.approx(900e9 * C.inside_share)
    (option,) = list_layouts(JOB, two_racks, C, Software(), layouts=[layout]).options
    assert option.layout == layout


def test_geforce_cards_talk_through_the_host() -> None:
    cards, nvlink = cluster_of("4xrtx4090"), cluster_of("8xh100", gpus=4)
    assert cards.domain_bandwidth_bytes_per_s == LINKS["pcie 4 x16 through the host"].bandwidth_bytes_per_s
    slow, fast = (Group.of(cluster, C, 4, 1) for cluster in (cards, nvlink))
    assert slow.latency_s == pytest.approx(4 * fast.latency_s)  # 20 us a hop, and 5
    assert slow.all_reduce_s(1 << 30) > 30 * fast.all_reduce_s(1 << 30)
    small = Job(MODELS["gpt-2-xl"], 1024, 32)
    times = {tp: step_parts(small, Layout(tp=tp, dp=4 // tp), cards, C, Software()).total_s for tp in (1, 4)}
    assert times[4] > 2 * times[1]  # no card for a tensor axis


def test_slower_networks_have_longer_calls() -> None:
    ethernet, infiniband = cluster_of("4xrtx4090", nodes=2), cluster_of("8xh100", nodes=2)
    slow, fast = Group.of(ethernet, C, 2, 4), Group.of(infiniband, C, 2, 8)
    assert slow.latency_s == pytest.approx(50 / 8 * fast.latency_s)
    assert slow.hop_s == pytest.approx(50 / 8 * fast.hop_s)
    assert slow.bandwidth_bytes_per_s == pytest.approx(1.25e9 / 4 * C.outside_share)


def test_float8_doubles_the_rate_of_layers_matrices_alone() -> None:
    layout, job = Layout(dp=8, sharding=3), Job(MODELS["llama-3-8b"], 8192, 64)
    wide, narrow = cluster_of("8xh100"), cluster_of("8xh100", dtype="float8")
    assert narrow.peak_flops_per_s == wide.peak_flops_per_s
    assert narrow.product_flops_per_s == pytest.approx(1979e12)
    before, after = (step_parts(job, layout, cluster, C, Software()) for cluster in (wide, narrow))
    assert after.output_s == before.output_s
    flops = 6 * job.tokens / 8 * job.model.layers * job.model.active_layer_weights
    saved_s = flops / C.matmul_share * (1 / 989e12 - 1 / 1979e12)
    assert before.compute_s - after.compute_s == pytest.approx(saved_s, rel=1e-6)


def test_types_that_a_gpu_has_no_rate_for() -> None:
    assert cluster_of("8xv100").peak_flops_per_s == 125e12  # of float16: it has no bfloat16
    with pytest.raises(ValueError, match=r"dtype is 'float8'; it is one of"):
        cluster_of("8xa100", dtype="float8")


def test_facts_of_a_cluster_reach_its_program() -> None:
    efa, eos, foundry = (profile_of(name, "H100-80GB").software("bfloat16") for name in ("H100 EFA", "Eos", "foundry"))
    told = [(one.reads_sizes, one.overlaps, one.bucket_bytes) for one in (efa, eos, foundry)]
    assert told == [(True, False, 25e6), (False, True, 160e6), (False, False, 25e6)]
    assert profile_of("Selene", "A100-80GB").software("float16").bucket_bytes == 0


def test_a_gpu_without_bfloat16_computes_in_float16() -> None:
    cards = cluster_of("2xt4")
    assert (cards.half_dtype, cards.has_bfloat16, cards.peak_flops_per_s) == ("float16", False, 65e12)
    assert cluster_of("8xh100").has_bfloat16
    with pytest.raises(ValueError, match="half_dtype is 'float8'; it is one of bfloat16, float16"):
        replace(cards, half_dtype="float8")
