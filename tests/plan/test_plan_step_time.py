"""Time by part: the parts add up, each does what its axis does, and a model of all is never better than its bounds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from course_lib.plan import (
    KINDS,
    MODELS,
    Constants,
    Job,
    Layout,
    Software,
    cluster_of,
    machine_by_name,
    placement,
    step_parts,
)
from course_lib.plan.estimate.layer_time import layer_pass
from course_lib.plan.estimate.links import Group

JOB = Job(MODELS["llama-3-8b"], seq=8192, batch=64)
NEW, EVEN = Software(), Software(layers_by_cost=False)


def step(layout: Layout, software: Software = NEW, job: Job = JOB, **constants: float):
    cluster = cluster_of("8xh100", gpus=layout.gpus)
    return step_parts(job, layout, cluster, Constants(**constants), software)


def test_the_parts_add_up() -> None:
    from dataclasses import asdict

    found = step(Layout(tp=2, pp=2, dp=2, micro_batch=2))
    assert found.total_s == pytest.approx(sum(asdict(found).values()))
    assert all(part >= 0 for part in asdict(found).values())


def test_no_layout_computes_faster_than_the_peak() -> None:
    for layout in (Layout(dp=8), Layout(tp=8), Layout(pp=4, dp=2), Layout(cp=8), Layout(tp=2, cp=2, dp=2)):
        peak_s = JOB.model.step_flops(JOB.seq, JOB.batch) / (layout.gpus * 989e12)
        attention = 3 * JOB.model.layers * JOB.model.attention_flops(JOB.seq) * JOB.tokens / 2
        assert step(layout).total_s > peak_s - attention / (layout.gpus * 989e12)


def test_a_bubble_is_what_the_schedule_says() -> None:
    """Even stages of layers alone: (p-1)/m of the work, and that by the chunks where interleaved."""
    job = Job(replace(MODELS["gpt-2"], layers=16, vocab=1), seq=1024, batch=32)
    layout = Layout(pp=4, micro_batch=1)
    found = step(layout, EVEN, job, latency_s=1e-6, host_layer_s=0.05e-3)
    work = found.compute_s + found.host_s
    hops = found.pipeline_s * 3 / 32
    assert found.bubble_s - hops == pytest.approx(work * 3 / 32, rel=1e-3)
    half = step(replace(layout, chunks=2), EVEN, job, latency_s=1e-6, host_layer_s=0.05e-3)
    assert half.bubble_s == pytest.approx(found.bubble_s / 2)
    assert half.pipeline_s == pytest.approx(2 * found.pipeline_s * 0.5)  # twice the messages, half of it hidden


def test_a_slow_host_is_waited_for() -> None:
    assert step(Layout(tp=8)).host_s == 0
    slow = step(Layout(tp=8), host_layer_s=10e-3)
    assert slow.host_s > 0
    assert slow.host_s + slow.compute_s + slow.tensor_s == pytest.approx(64 * 32 * 2 * 10e-3)


def test_full_recomputation_is_a_third_of_the_matrices_again() -> None:
    none, full = step(Layout(dp=8), OLD), step(Layout(dp=8, recompute="full"), OLD)
    shared = [step(Layout(dp=8, sharding=2, recompute=each), OLD).compute_s for each in ("full", "none")]
    scores_s = layer_pass(JOB, Layout(dp=8), cluster_of("8xh100"), Constants(), OLD).scores_s
    fewer_s = 8 * 32 * scores_s / 2  # backward scores move fewer bytes than twice the forward pass
    assert shared[0] + fewer_s == pytest.approx(4 / 3 * (shared[1] + fewer_s))  # no gradients of layers are added up
    assert full.total_s > step(Layout(dp=8, recompute="selective"), OLD).total_s > none.total_s


OLD = Software(fused_attention=False, selective_products=False)


def test_tensor_parallelism_across_nodes_is_dear() -> None:
    inside, outside = step(Layout(tp=8, dp=2)), step(Layout(tp=16))
    assert outside.tensor_s > 2 * inside.tensor_s


def test_what_the_data_axis_sends() -> None:
    whole = step(Layout(dp=16), hidden_share=0.02)
    assert step(Layout(dp=16), hidden_share=1.0).data_s < whole.data_s
    one, many = (step(Layout(dp=16, sharding=3, micro_batch=size)).data_s for size in (4, 1))
    assert many > 2 * one  # it gathers for each micro-batch
    hybrid = step(Layout(dp=16, sharding=3, shard_size=8))
    assert hybrid.data_s < many  # gathered inside the node
    assert step(Layout(dp=1, tp=8)).data_s == 0
    once, each = (step(Layout(dp=16, sharding=stage), hidden_share=0.02).data_s for stage in (1, 2))
    assert each > 2 * once  # four micro-batches, four reduce-scatters, one all-gather


def test_the_optimizer_is_shared_out_and_offloading_is_slow() -> None:
    whole, shared = step(Layout(dp=8)).optimizer_s, step(Layout(dp=8, sharding=1)).optimizer_s
    assert shared == pytest.approx(whole / 8)
    assert step(Layout(dp=8, sharding=1, offload=True)).optimizer_s > 5 * shared


def test_rings_and_experts() -> None:
    assert step(Layout(cp=8)).context_s >= 0
    assert step(Layout(cp=16), job=Job(JOB.model, 1024, 64)).context_s > 0  # too short to hide behind
    mixture = Job(MODELS["mixtral-8x7b"], 4096, 64)
    assert step(Layout(dp=8, ep=8), job=mixture).expert_s > 0
    assert step(Layout(dp=8), job=mixture).expert_s == 0


def test_places_and_links() -> None:
    cluster = cluster_of("8xh100", nodes=4)
    assert placement(cluster, 8, 1).inside
    assert placement(cluster, 4, 8).per_node == 1
    assert placement(cluster, 16, 2) == placement(cluster, 16, 2)
    assert placement(cluster, 16, 2).per_node == 4
    wide, narrow = (Group.of(cluster, Constants(), 4, stride) for stride in (1, 8))
    assert wide.bandwidth_bytes_per_s > 5 * narrow.bandwidth_bytes_per_s
    assert Group.of(cluster, Constants(), 1, 1).all_reduce_s(1e9) == 0
    domain = replace(cluster, node_size=8, domain_size=32)  # nine such nodes make an NVL72
    assert placement(domain, 32, 1).inside


def test_constants_have_bounds_and_clusters_whole_machines() -> None:
    with pytest.raises(ValueError, match=r"matmul_share is 1\.2; .* The nearest is 0\.95"):
        Constants(matmul_share=1.2)
    for kind in KINDS.values():
        assert kind.lowest <= kind.typical <= kind.highest
    with pytest.raises(ValueError, match="The nearest is 24"):
        cluster_of("8xh100", gpus=23)
    assert machine_by_name("8xH100").name == "8x H100"
    with pytest.raises(ValueError, match="machine is '8xh1000'"):
        machine_by_name("8xh1000")
    with pytest.raises(ValueError, match=r"sharding is 4; it is 0, 1, 2 or 3\. The nearest is 3"):
        Layout(sharding=4)


def test_the_slowest_stage_sets_the_pace() -> None:
    """The output makes the last of even stages the slowest; with layers by cost none has so much more to do."""
    wide = Job(replace(JOB.model, vocab=1_000_000), 8192, 64)
    even, by_cost = (step(Layout(pp=4), software, wide) for software in (EVEN, NEW))
    assert even.output_s > 0
    assert even.total_s > by_cost.total_s
    assert even.compute_s == pytest.approx(step(Layout(pp=4), EVEN).compute_s)


def test_an_all_reduce_is_a_reduce_scatter_and_an_all_gather() -> None:
    group = Group.of(cluster_of("8xa100"), Constants(), 8, 1)
    assert group.all_reduce_s(1 << 26) == pytest.approx(2 * group.all_gather_s(1 << 26))
    bus = 2 * 7 / 8 * (1 << 34) / group.all_reduce_s(1 << 34)
    assert bus == pytest.approx(300e9 * 0.7, rel=0.01)  # of a large buffer: all of its share of the link
    measured_s = 8203.9e-6  # an all-reduce of 1 GiB among 8 GPUs A100 with NVLink, by nccl-tests
    assert group.all_reduce_s(1 << 30) == pytest.approx(measured_s, rel=0.15)


def test_the_output_is_three_products_of_the_vocabulary() -> None:
    job = Job(replace(JOB.model, layers=1, vocab=4_000_000), 8192, 1)
    found = step(Layout(), job=job, memory_share=1.0, matmul_share=0.95)
    flops = 3 * 2 * 8192 * 4096 * 4_000_000
    assert flops / (989e12 * 0.95) < found.output_s < 1.6 * flops / (989e12 * 0.95)


def test_fused_attention_skips_what_is_masked() -> None:
    long = Job(JOB.model, 131072, 1)
    fused, unfused = (step(Layout(cp=8), software, long).compute_s for software in (NEW, OLD))
    attention_s = 3 * 32 * 131072 * JOB.model.attention_flops(131072) / (8 * 989e12 * 0.72)
    assert unfused - fused > attention_s / 3
    assert fused < 1.1 * (
        4 / 3 * attention_s / 2 * 0.72 / 0.32 + 3 * 2 * 32 * 131072 * JOB.model.active_layer_weights / (8 * 5e14)
    )
