"""Time by part, each against its formula: what a stage, a ring, a link and the data axis take, worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import log2

import pytest

from course_lib.plan import KINDS, MODELS, Constants, Decoder, Job, Layout, Software, cluster_of, step_parts
from course_lib.plan.estimate.dp_comm_time import data_axis
from course_lib.plan.estimate.layer_time import attention_flops_per_s, layer_pass, output_s, tensor_call_s
from course_lib.plan.estimate.links import Group
from course_lib.plan.estimate.memory import stage_parameters
from course_lib.plan.estimate.step_time import gradient_sum_s, hop_shown, layer_step
from course_lib.plan.inputs.constants import ClusterKind

SMALL = Decoder("small", layers=10, hidden=4096, heads=32, ffn=16384, vocab=32, tied=True)
JOB = Job(SMALL, seq=4096, batch=32)
EVEN = Software(layers_by_cost=False, copied_bytes=0.0)
C = Constants(host_layer_s=0.05e-3)


def step(layout: Layout, software: Software = EVEN, job: Job = JOB, constants: Constants = C):
    return step_parts(job, layout, cluster_of("8xh100", gpus=layout.gpus), constants, software)


def forward(layout: Layout, software: Software = EVEN, job: Job = JOB, constants: Constants = C):
    return layer_pass(job, layout, cluster_of("8xh100", gpus=layout.gpus), constants, software)


def test_the_stage_with_most_layers_sets_the_pace_wherever_it_stands() -> None:
    """Ten layers on four stages are 3, 3, 2 and 2: the first is the slowest, and the last waits for it."""
    one, four = step(Layout()), step(Layout(pp=4))
    assert four.compute_s == pytest.approx(one.compute_s * 3 / 10)
    assert four.output_s == 0
    layer_s = one.compute_s / (10 * 32)
    hops_s = four.pipeline_s * 3 / 32
    vocabulary_s = output_s(JOB, Layout(pp=4), cluster_of("8xh100", gpus=4), C, EVEN)
    assert four.bubble_s == pytest.approx((3 + 2 + 2) * layer_s + vocabulary_s + hops_s)


def test_the_output_counts_where_it_makes_the_last_stage_the_slowest() -> None:
    wide = Job(replace(SMALL, vocab=1_000_000), 4096, 32)
    four = step(Layout(pp=4), job=wide)
    one = output_s(wide, Layout(pp=4), cluster_of("8xh100", gpus=4), C, EVEN)
    assert four.output_s == pytest.approx(32 * one)
    assert four.compute_s == pytest.approx(step(Layout()).compute_s * 2 / 10)


def test_a_forward_pass_is_its_products_their_bytes_and_what_goes_element_by_element() -> None:
    layout = Layout(tp=2, micro_batch=2, sequence_parallel=True)
    rows, h, f = 2 * 4096, 4096, 16384
    peak, memory = 989e12 * C.matmul_share, 3.35e12 * C.memory_share
    products = [(rows, h, 3 * h / 2), (rows, h / 2, h), (rows, h, f / 2), (rows, f / 2, h)]
    wanted_s = sum(2 * a * b * c / peak + 2 * (a * b + b * c + a * c) / memory for a, b, c in products)
    attention_s = rows * 4 * 4096 * h * 0.5 / 2 / (0.32 * 989e12)
    elements_s = 2 * rows * (12 * h / 2 + ((2 + 6) / 3 * h + 2 * f) / 2) / memory  # nothing is rotated
    found = forward(layout)
    assert found.attention_s == pytest.approx(attention_s)
    assert found.compute_s == pytest.approx(wanted_s + attention_s + elements_s)
    both_ways_s = 2 * Group.of(cluster_of("8xh100", gpus=2), C, 2, 1).all_reduce_s(2 * rows * h)
    assert found.tensor_s == pytest.approx(both_ways_s)


def test_a_step_is_three_passes_of_work_and_two_of_collectives() -> None:
    layout = Layout(tp=2, micro_batch=2)
    once, whole = forward(layout), step(layout)
    sums_s = gradient_sum_s(JOB, layout, cluster_of("8xh100", gpus=2), C, EVEN)
    assert whole.compute_s == pytest.approx(16 * 10 * (3 * once.compute_s + once.attention_s + sums_s))
    assert whole.tensor_s == pytest.approx(16 * 10 * 2 * once.tensor_s)
    full = step(replace(layout, recompute="full"))
    assert full.compute_s == pytest.approx(16 * 10 * (4 * once.compute_s + sums_s))
    assert full.tensor_s == pytest.approx(16 * 10 * 3 * once.tensor_s)


@pytest.mark.parametrize("cp", [2, 4])
def test_a_ring_pays_for_what_it_sends_and_for_putting_sums_together(cp: int) -> None:
    layout = Layout(cp=cp)
    group = Group.of(cluster_of("8xh100", gpus=cp), C, cp, 1)
    rows = 4096 / cp
    send_s = group.send_s(2 * 2 * rows * 4096)
    found = forward(layout)
    shown_s = send_s - C.hidden_share * min(send_s, found.attention_s / cp)
    merge_s = 14 * rows * 4096 / (3.35e12 * C.memory_share)
    assert found.context_s == pytest.approx((cp - 1) * (shown_s + merge_s))
    assert step(layout).context_s == pytest.approx(32 * 10 * 3 * found.context_s)  # their gradients go round too


def test_a_longer_ring_is_dearer_for_the_same_rows() -> None:
    """What plain data parallelism does with as many rows a rank, a ring does with more to send."""
    plain, *rings = (step(Layout(dp=8 // cp, cp=cp, micro_batch=cp, sharding=3)) for cp in (1, 2, 4))
    times = [plain.total_s, *(ring.total_s for ring in rings)]
    assert times == sorted(times)
    assert times[0] < times[1] < times[2]


def test_a_group_on_more_nodes_gets_less_of_a_network_that_falls_off() -> None:
    even = cluster_of("8xh100", nodes=8)
    falling = replace(even, network_falloff=0.5)
    for nodes, part in ((2, 1.0), (8, 0.5)):
        before, after = (Group.of(one, C, nodes, 8) for one in (even, falling))
        assert after.bandwidth_bytes_per_s == pytest.approx(part * before.bandwidth_bytes_per_s)
        assert after.send_s(1 << 30) == before.send_s(1 << 30)  # neighbours are two nodes
    assert before.bandwidth_bytes_per_s == pytest.approx(400e9 / 8 * C.outside_share)
    with pytest.raises(ValueError, match="network_falloff"):
        replace(even, network_falloff=-0.5)


def test_collectives_by_hand() -> None:
    cluster = cluster_of("8xh100", nodes=2)
    inside, outside = Group.of(cluster, C, 8, 1), Group.of(cluster, C, 16, 1)
    size, doublings = 1 << 30, 20
    bandwidth = 450e9 * C.inside_share
    assert inside.all_reduce_s(size) == pytest.approx(2 * (C.latency_s * doublings / 2 + 7 / 8 * size / bandwidth))
    assert outside.bandwidth_bytes_per_s == pytest.approx(400e9 * C.outside_share)
    way_s, start_s = 15 / 16 * size / (400e9 * C.outside_share), C.latency_s * doublings / 2
    assert outside.all_gather_s(size) == pytest.approx(start_s + way_s + 15 * C.latency_s / 2)
    slow = Group.of(replace(cluster, node_bandwidth_bytes_per_s=100e9), C, 16, 1)
    once_s = size / (100e9 * C.outside_share)  # NCCL's tree: across once; then one level up and down
    assert slow.all_reduce_s(size) == pytest.approx(2 * start_s + once_s + 2 * C.latency_s)
    many = Group.of(cluster_of("8xh100", nodes=4), C, 32, 1)
    ring_s = 2 * 31 / 32 * size / (400e9 * C.outside_share)
    assert many.all_reduce_s(size) == pytest.approx(2 * start_s + ring_s + 4 * C.latency_s)


def test_between_two_nodes_nvlink_is_the_limit_where_the_network_is_as_fast() -> None:
    cluster = replace(cluster_of("8xh100", nodes=2), node_bandwidth_bytes_per_s=1e15)
    group, size = Group.of(cluster, C, 16, 1), 1 << 30
    sent_s = 2 * 15 / 16 * size / (450e9 * C.inside_share)
    assert group.all_reduce_s(size) == pytest.approx(sent_s + 20 * C.latency_s + 2 * C.latency_s)


def test_sequence_parallelism_sends_an_all_reduce_in_two_halves() -> None:
    """Within a node both take as long; over two nodes only the all-reduce has NCCL's tree."""
    for nodes, tp in ((1, 8), (2, 16)):
        cluster = cluster_of("8xh100", nodes=nodes)
        job = Job(MODELS["llama-3-8b"], seq=8192, batch=1)
        group = Group.of(cluster, C, tp, 1)
        size = 2 * 8192 * 4096
        whole, halves = (
            tensor_call_s(job, Layout(tp=tp, sequence_parallel=is_cut), cluster, C) for is_cut in (False, True)
        )
        assert whole == group.all_reduce_s(size)
        assert halves == 2 * group.all_gather_s(size)
        assert halves == pytest.approx(whole) if nodes == 1 else halves > 1.2 * whole


def test_an_all_reduce_takes_the_shorter_way_of_ring_and_tree() -> None:
    """From one node to a thousand, one rank on each: a few hops around, and then levels of a tree."""
    for nodes, hops in ((2, 1), (4, 3), (8, 6), (1024, 20)):
        cluster = replace(cluster_of("8xh100", nodes=nodes), domain_size=1, node_size=1)
        group = Group.of(cluster, C, nodes, 1)
        sent_s = 2 * (nodes - 1) / nodes * (1 << 30) / group.bandwidth_bytes_per_s
        latency_s = C.latency_s * (20 + hops)
        assert group.all_reduce_s(1 << 30) == pytest.approx(sent_s + latency_s)


def test_more_nodes_cost_small_calls_and_hardly_large_ones() -> None:
    few, many = (Group.of(cluster_of("8xh100", nodes=64), C, 8 * nodes, 1) for nodes in (2, 64))
    slower = [many.all_gather_s(size) / few.all_gather_s(size) for size in (25e6, 250e6, 25e9)]
    assert slower[0] > 4 > slower[1] > 1.1 > slower[2] > 1


def data_s(layout: Layout, software: Software, **constants: float) -> float:
    return step(layout, software, constants=replace(C, **constants)).data_s


def in_buckets_s(call_s: Callable[[float], float], size_bytes: float) -> float:
    """In as many calls as 25 MB go into it."""
    calls = size_bytes / 25e6
    return calls * call_s(size_bytes / calls)


def test_the_data_axis_by_hand() -> None:
    """With almost nothing hidden: what is sent is told by the stage of sharding."""
    numbers = stage_parameters(SMALL, Layout(), 10, 1)
    group = Group.of(cluster_of("8xh100", nodes=2), C, 16, 1)
    shown = {"hidden_share": KINDS["hidden_share"].lowest}
    gradients_s = in_buckets_s(group.all_gather_s, 4 * numbers)
    weights_s = group.all_gather_s(2 * numbers)
    for stage, wanted_s in (
        (0, in_buckets_s(group.all_reduce_s, 4 * numbers)),
        (1, gradients_s + weights_s),
        (2, 2 * gradients_s + weights_s),  # each of two micro-batches
    ):
        assert data_s(Layout(dp=16, sharding=stage), EVEN, **shown) == pytest.approx(wanted_s, rel=0.025)
    calls_s = 10 * (2 * group.all_gather_s(2 * numbers / 10) + group.all_gather_s(4 * numbers / 10))
    assert data_s(Layout(dp=16, sharding=3), EVEN, **shown) == pytest.approx(2 * calls_s, rel=0.05)


def test_hybrid_sharding_sums_the_shares_of_other_nodes_once() -> None:
    numbers = stage_parameters(SMALL, Layout(), 10, 1)
    cluster = cluster_of("8xh100", nodes=2)
    inner, outer = Group.of(cluster, C, 8, 1), Group.of(cluster, C, 2, 8)
    calls_s = 10 * (2 * inner.all_gather_s(2 * numbers / 10) + inner.all_gather_s(4 * numbers / 10))
    wanted_s = 2 * calls_s + outer.all_reduce_s(4 * numbers / 8)
    found = data_s(Layout(dp=16, sharding=3, shard_size=8), EVEN, hidden_share=0.02)
    assert found == pytest.approx(wanted_s * 0.98**2, rel=1e-6)


def test_what_hybrid_sharding_sums_once_hides_behind_the_last_backward_pass_alone() -> None:
    """Of 128 micro-batches the last one's backward pass is short beside what a slow network takes."""
    layout, job = Layout(dp=16, sharding=3, shard_size=8), Job(SMALL, 8192, 2048)
    cluster = replace(cluster_of("8xh100", nodes=2), node_bandwidth_bytes_per_s=3e9)
    constants = replace(C, hidden_share=1.0)
    found = step_parts(job, layout, cluster, constants, EVEN)
    numbers = stage_parameters(SMALL, Layout(), 10, 1)
    late_s = Group.of(cluster, constants, 2, 8).all_reduce_s(4 * numbers / 8)
    last_s = 2 / 3 * (found.compute_s + found.host_s) / 128
    assert 0 < 20 * last_s < late_s < found.compute_s
    assert found.data_s == pytest.approx(late_s - last_s)


def test_gradients_hide_behind_the_last_backward_pass_alone() -> None:
    """With all that can hide hidden, and little to compute, what is sent less two thirds of a micro-batch shows."""
    numbers = stage_parameters(SMALL, Layout(), 10, 1)
    sent_s = in_buckets_s(Group.of(cluster_of("8xh100", nodes=16), C, 128, 1).all_reduce_s, 4 * numbers)
    job = Job(SMALL, 512, 256)
    found = step(Layout(dp=128), job=job, constants=replace(C, hidden_share=1.0))
    micro_batch_s = (found.compute_s + found.host_s) / 2
    assert 0 < 2 / 3 * micro_batch_s < sent_s
    assert found.data_s == pytest.approx(sent_s - 2 / 3 * micro_batch_s)


def test_ranks_of_a_ring_hold_the_same_weights_and_sum_their_gradients() -> None:
    numbers = stage_parameters(SMALL, Layout(), 10, 1)
    sent_s = in_buckets_s(Group.of(cluster_of("8xh100", gpus=4), C, 4, 1).all_reduce_s, 4 * numbers)
    assert data_s(Layout(cp=4), EVEN, hidden_share=0.02) == pytest.approx(sent_s, rel=0.02)


@pytest.mark.parametrize("sharding", [0, 1, 3])
def test_gradients_hide_and_weights_where_the_program_sees_to_it(sharding: int) -> None:
    layout = Layout(dp=16, sharding=sharding, micro_batch=2)
    plain = replace(EVEN, prefetches=False)
    numbers = stage_parameters(SMALL, Layout(), 10, 1)
    group = Group.of(cluster_of("8xh100", nodes=2), C, 16, 1)
    weights_s = {0: 0.0, 1: group.all_gather_s(2 * numbers), 3: 2 * 10 * group.all_gather_s(2 * numbers / 10)}[sharding]
    gradients_s = (data_s(layout, plain, hidden_share=0.02) - weights_s) / 0.98
    assert data_s(layout, plain, hidden_share=0.4) == pytest.approx(0.6 * gradients_s + weights_s, rel=1e-3)
    overlapped_s = data_s(layout, replace(plain, overlaps=True), hidden_share=0.4)
    shown = 0.36 if sharding == 3 else 20 / 132  # hides twice; or all but what the calls take from computing
    assert overlapped_s == pytest.approx(shown * (gradients_s + weights_s), rel=1e-3)
    assert overlapped_s == data_s(layout, replace(plain, gathers_ahead=True), hidden_share=0.4)
    gathered_ahead_s = data_s(layout, EVEN, hidden_share=0.4)
    assert gathered_ahead_s == pytest.approx(overlapped_s if sharding == 3 else 0.6 * gradients_s + weights_s, rel=1e-3)


def test_weights_that_are_gathered_behind_the_next_forward_pass_have_that_window() -> None:
    slow = replace(cluster_of("8xh100", nodes=2), node_bandwidth_bytes_per_s=4e9)
    args = (SMALL, Layout(dp=16, sharding=1), slow, C, replace(EVEN, overlaps=True), 10, 3e-3, 2.0)
    found = data_axis(*args)
    weights_s = sum(one.total_s for one in found.sendings if one.what == "weights")
    assert weights_s > 0.01 < found.total_s - weights_s  # both take longer than what they can hide behind
    assert found.exposed_s == pytest.approx(found.total_s - (1 - 20 / 132) * 10 * 3e-3)


@pytest.mark.parametrize("sharding", [0, 1])
def test_gradients_in_one_call_go_after_the_last_backward_pass_and_hide_nowhere(sharding: int) -> None:
    layout, at_once = Layout(dp=16, sharding=sharding), replace(EVEN, bucket_bytes=0)
    assert data_s(layout, at_once, hidden_share=0.9) == data_s(layout, at_once, hidden_share=0.02)
    assert data_s(layout, EVEN, hidden_share=0.9) < data_s(layout, EVEN, hidden_share=0.02)


def test_gradients_in_one_call_pay_its_way_once() -> None:
    layout, group = Layout(dp=16), Group.of(cluster_of("8xh100", nodes=2), C, 16, 1)
    numbers = stage_parameters(SMALL, Layout(), 10, 1)
    found = data_s(layout, replace(EVEN, bucket_bytes=0), hidden_share=0.02)
    assert found == pytest.approx(group.all_reduce_s(4 * numbers))
    with pytest.raises(ValueError, match="bucket_bytes"):
        replace(EVEN, bucket_bytes=-1)


def test_tensor_collectives_that_overlap() -> None:
    layout = Layout(tp=8)
    whole, part = (step(layout, replace(EVEN, overlaps=overlaps)).tensor_s for overlaps in (False, True))
    assert part == pytest.approx((1 - (1 - 20 / 132) * 7 / 8) * whole)  # the first of eight pieces cannot hide


@pytest.mark.parametrize(("tp", "gpus"), [(1, 16), (2, 16), (4, 16), (8, 16), (4, 8)])
def test_a_host_that_reads_sizes_waits_where_the_pipeline_leaves_its_node(tp: int, gpus: int) -> None:
    slow = replace(C, host_layer_s=10e-3)  # so that the GPU always waits for it
    layout = Layout(tp=tp, pp=2, dp=gpus // (2 * tp))
    reads = replace(EVEN, reads_sizes=True)
    before, after = (step(layout, one, constants=slow) for one in (EVEN, reads))
    times = 1 + log2(tp) if gpus > 8 else 1
    busy = before.host_s + before.compute_s + before.tensor_s
    assert after.host_s + after.compute_s + after.tensor_s == pytest.approx(times * busy)
    alone = Layout(tp=tp, dp=gpus // tp)
    assert step(alone, reads, constants=slow) == step(alone, EVEN, constants=slow)


def test_the_optimizer_reads_and_writes_its_states_once() -> None:
    numbers = stage_parameters(SMALL, Layout(dp=8), 10, 1)
    wanted_s = 34 * numbers / (3.35e12 * C.memory_share)
    assert step(Layout(dp=8)).optimizer_s == pytest.approx(wanted_s)
    untied = Job(MODELS["llama-3-8b"], 8192, 32)
    tables = stage_parameters(untied.model, Layout(dp=8), 32, 2)
    assert step(Layout(dp=8, sharding=1), job=untied).optimizer_s == pytest.approx(
        34 * tables / 8 / (3.35e12 * C.memory_share)
    )


def test_messages_of_a_pipeline() -> None:
    layout = Layout(pp=4, dp=4)
    group = Group.of(cluster_of("8xh100", nodes=2), C, 4, 4)
    hop_s = group.send_s(2 * 4096 * 4096)
    assert step(layout).pipeline_s == pytest.approx(8 * 2 * hop_s)
    chunked = step(replace(layout, chunks=2))
    assert chunked.pipeline_s == pytest.approx(8 * 2 * 2 * hop_s * (1 - C.hidden_share))
    for software in (replace(EVEN, overlaps=True), replace(EVEN, sends_ahead=True)):
        assert hop_shown(replace(layout, chunks=2), C, software) == pytest.approx(20 / 132)
        assert hop_shown(layout, C, software) == 1


def test_tensor_ranks_send_their_part_each() -> None:
    """Without sequence parallelism the next stage's ranks put the parts together again."""
    layout = Layout(tp=4, pp=2, dp=2, sequence_parallel=True)
    cluster = cluster_of("8xh100", nodes=2)
    part_s = Group.of(cluster, C, 2, 8).send_s(2 * 4096 * 4096 / 4)
    assert step(layout).pipeline_s == pytest.approx(16 * 2 * part_s)
    joined_s = Group.of(cluster, C, 4, 1).all_gather_s(2 * 4096 * 4096)
    whole = step(replace(layout, sequence_parallel=False))
    assert whole.pipeline_s == pytest.approx(16 * 2 * (part_s + joined_s))


def test_the_output_by_hand() -> None:
    """Three products, and the bytes that the program's loss moves for each logit."""
    wide = Job(replace(SMALL, vocab=128_000), 4096, 32)
    memory, peak = 3.35e12 * C.memory_share, 989e12 * C.matmul_share
    rows, vocab = 2 * 4096, 128_000 / 2
    product_s = 2 * rows * 4096 * vocab / peak + 2 * (rows * 4096 + 4096 * vocab + rows * vocab) / memory
    for loss_bytes in (36, 52):
        software = replace(EVEN, loss_bytes=loss_bytes)
        found = output_s(wide, Layout(tp=2, micro_batch=2), cluster_of("8xh100", gpus=2), C, software)
        assert found == pytest.approx(3 * product_s + loss_bytes * rows * vocab / memory)
    assert EVEN.loss_bytes == 36  # PyTorch's own


def test_fused_attention_has_the_share_of_its_kernels() -> None:
    """The program's, else the cluster's, else that of matrices; unfused attention is made of matrices."""
    h100, a100 = (cluster_of(name) for name in ("8xh100", "8xa100"))
    assert attention_flops_per_s(h100, C, EVEN) == pytest.approx(0.32 * 989e12)
    assert attention_flops_per_s(h100, C, replace(EVEN, attention_share=0.51)) == pytest.approx(0.51 * 989e12)
    assert attention_flops_per_s(a100, C, EVEN) == pytest.approx(C.matmul_share * 312e12)
    assert attention_flops_per_s(h100, C, replace(EVEN, fused_attention=False)) == pytest.approx(
        C.matmul_share * 989e12
    )
    with pytest.raises(ValueError, match="attention_share"):
        replace(EVEN, attention_share=-0.1)


def test_unfused_scores_move_fewer_bytes_backward_than_twice_the_forward_pass() -> None:
    software = replace(EVEN, fused_attention=False)
    one = layer_step(JOB, Layout(), cluster_of("8xh100", gpus=1), C, replace(software, gradient_bytes=4))
    pass_ = forward(Layout(), software)
    scores_s = 12 * 4096 * 4096 * 32 / (3.35e12 * C.memory_share)
    assert pass_.scores_s == pytest.approx(scores_s)
    added_s = gradient_sum_s(JOB, Layout(), cluster_of("8xh100", gpus=1), C, replace(software, gradient_bytes=4))
    assert one.compute_s - added_s == pytest.approx(3 * pass_.compute_s - 0.5 * scores_s)
    assert forward(Layout(), EVEN).scores_s == 0


def test_an_eager_gate_writes_and_reads_the_activation_once_more() -> None:
    gated = Job(MODELS["llama-3-8b"], 4096, 64)
    eager_s, fused_s = (
        forward(Layout(tp=2), replace(EVEN, fused_gate=fused), job=gated).elements_s for fused in (False, True)
    )
    assert eager_s - fused_s == pytest.approx(4 * 4096 * 14336 / 2 / (3.35e12 * C.memory_share))


def test_a_host_that_waits_for_each_kernel_takes_turns_with_the_gpu() -> None:
    whole, turns = (step(Layout(), replace(EVEN, blocks=blocks)) for blocks in (False, True))
    assert whole.host_s == 0
    assert turns.host_s == pytest.approx(JOB.batch * SMALL.layers * 2 * C.host_layer_s)
    assert turns.compute_s == whole.compute_s


def test_unfused_attention_computes_all_scores_and_moves_each_12_bytes() -> None:
    unfused = forward(Layout(), replace(EVEN, fused_attention=False)).attention_s
    scores = 4096 * 4096 * 32
    wanted_s = 4 * scores * 128 / (989e12 * C.matmul_share) + 12 * scores / (3.35e12 * C.memory_share)
    assert unfused == pytest.approx(wanted_s)


def test_experts_are_two_exchanges_of_the_rows_that_they_get() -> None:
    mixture = Job(MODELS["mixtral-8x7b"], 4096, 64)
    group = Group.of(cluster_of("8xh100"), C, 8, 1)
    wanted_s = 2 * group.all_to_all_s(2 * (2 * 4096) * 4096)  # each row meets two experts
    assert forward(Layout(dp=8, ep=8), job=mixture).expert_s == pytest.approx(wanted_s)
    assert group.all_to_all_s(1 << 20) == group.all_gather_s(1 << 20)


def test_kinds_are_at_most_eight() -> None:
    assert len(KINDS) <= 8
    assert all(isinstance(kind, ClusterKind) for kind in KINDS.values())
