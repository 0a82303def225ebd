"""Memory by part: the papers' formulas to the byte, and what each way of saving saves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from course_lib.cost import published_activation_bytes, sharded_state
from course_lib.plan import (
    Constants,
    Decoder,
    Job,
    Layout,
    Software,
    cluster_of,
    layer_activation_bytes,
    memory_parts,
)
from course_lib.plan.estimate.memory import stage_parameters
from course_lib.plan.inputs.stages import stage_layers

GPT = Decoder("gpt", 96, 12288, 96, 4 * 12288, 51200, tied=True)
OLD = Software(
    fused_attention=False,
    layers_by_cost=False,
    dropout=True,
    gradient_bytes=2,
    reduce_bytes=2,
    selective_products=False,
)
JOB = Job(GPT, seq=2048, batch=64)


def parts(layout: Layout, software: Software = OLD, job: Job = JOB):
    return memory_parts(job, layout, cluster_of("8xa100", gpus=layout.gpus), Constants(), software)


@pytest.mark.parametrize("tp", [1, 2, 8])
@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_activations_are_the_published_formula(tp: int, sequence_parallel: bool) -> None:
    layout = Layout(tp=tp, micro_batch=3, sequence_parallel=sequence_parallel)
    wanted = published_activation_bytes(
        length=2048,
        batch_size=3,
        width=12288,
        num_heads=96,
        num_ranks=tp,
        sequence_parallel=sequence_parallel,
    )
    assert layer_activation_bytes(GPT, layout, 2048, OLD) == pytest.approx(wanted, rel=1e-12)


def test_selective_recomputation_leaves_the_scores_out_and_full_keeps_the_input() -> None:
    layout, sbh = Layout(tp=8, sequence_parallel=True), 2048 * 12288
    selective = replace(layout, recompute="selective")
    assert layer_activation_bytes(GPT, selective, 2048, OLD) == pytest.approx(34 * sbh / 8)
    assert layer_activation_bytes(GPT, replace(layout, recompute="full"), 2048, OLD) == 2 * sbh / 8
    kept_whole = replace(layout, recompute="full", sequence_parallel=False)
    assert layer_activation_bytes(GPT, kept_whole, 2048, OLD) == 2 * sbh


@pytest.mark.parametrize("stage", [0, 1, 2])
def test_states_are_those_of_zero(stage: int) -> None:
    small = Decoder("small", 4, 256, 4, 1024, 1024, tied=True, norm_parameters=2)
    found = parts(Layout(dp=8, sharding=stage), OLD, Job(small, 128, 8))
    numbers = small.layers * small.layer_parameters + small.embedding_parameters
    wanted = sharded_state(numbers, stage=stage, num_ranks=8)
    assert found.weights_bytes == wanted.parameters
    assert found.gradients_bytes == wanted.gradients
    assert found.optimizer_bytes == wanted.optimizer + wanted.master


def test_sharding_3_gathers_layer_by_layer() -> None:
    whole, shared = parts(Layout(dp=8)), parts(Layout(dp=8, sharding=3))
    assert shared.weights_bytes < whole.weights_bytes / 4
    assert shared.weights_bytes > whole.weights_bytes / 8
    assert parts(Layout(dp=8, sharding=3, shard_size=2)).weights_bytes > shared.weights_bytes


def test_sharding_3_by_hand() -> None:
    """A share of all weights; two layers whole; a table whole, with its gradient."""
    layout = Layout(dp=8, sharding=3)
    layer, table = stage_parameters(GPT, layout, 1, 0), stage_parameters(GPT, layout, 0, 1)
    numbers = stage_parameters(GPT, layout, 96, 1)
    assert parts(layout).weights_bytes == pytest.approx(2 * numbers / 8 + 2 * 2 * layer + (2 + 2) * table)


def test_fused_attention_keeps_what_it_rotates_and_what_it_gathers() -> None:
    """By hand: 10 h of norms and inputs, queries and keys there again in 2 and 4 bytes, three widths of the MLP."""
    model = Decoder("l", 2, 4096, 32, 14336, 1000, kv_heads=8, gated=True)
    kept = 8 * 4096 + 4 * 4096 + 4 * 1024 + 8 * 14336 + 6 * (4096 + 1024)
    assert layer_activation_bytes(model, Layout(), 8192, Software()) == 8192 * kept
    cut = Layout(tp=4, sequence_parallel=True)
    gathered = 2 * 4096 * 3 / 4
    assert layer_activation_bytes(model, cut, 8192, Software()) == 8192 * (kept / 4 + gathered)
    again = Software(keeps_gathered=False)
    assert layer_activation_bytes(model, cut, 8192, again) == 8192 * kept / 4


def test_offloaded_states_leave_the_gpu() -> None:
    assert parts(Layout(dp=8, offload=True)).optimizer_bytes == 0


def test_the_first_stage_keeps_as_many_micro_batches_as_there_are_stages() -> None:
    layout = Layout(tp=8, pp=8, recompute="selective", sequence_parallel=True)
    a_layer = layer_activation_bytes(GPT, layout, 2048, OLD)
    handed = 12 * 2048 * 12288 / 8
    assert parts(layout).activations_bytes == pytest.approx(8 * (12 * a_layer + handed))
    interleaved = replace(layout, chunks=3)
    assert parts(interleaved).activations_bytes == pytest.approx((8 + 7 / 3) * (12 * a_layer + handed))
    few = Job(GPT, 2048, 2)  # two micro-batches cannot be eight
    assert parts(layout, job=few).activations_bytes == pytest.approx(2 * (12 * a_layer + handed))


def test_logits_stand_on_the_last_stage_and_grow_with_the_vocabulary() -> None:
    wide = Job(Decoder("wide", 4, 1024, 8, 4096, 256_000), seq=8192, batch=4)
    last = parts(Layout(pp=2), job=wide)
    assert last.logits_bytes == 10 * 8192 * 256_000
    a_layer = layer_activation_bytes(wide.model, Layout(), 8192, OLD)
    assert last.activations_bytes == 2 * a_layer + 12 * 8192 * 1024  # of one micro-batch; the first stage keeps two
    assert parts(Layout(pp=2, tp=2), job=wide).logits_bytes == 10 * 8192 * 256_000 / 2


def test_layers_of_stages() -> None:
    assert stage_layers(10, 4, 0.0, False) == (3, 3, 2, 2)
    assert stage_layers(16, 4, 4.0, True) == (5, 5, 5, 1)  # the output counts as four layers
    assert stage_layers(16, 8, 4.0, True) == (2, 3, 2, 3, 2, 3, 1, 0)
    for stages in range(1, 17):
        assert sum(stage_layers(33, stages, 2.5, True)) == 33
