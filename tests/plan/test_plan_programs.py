"""What programs do beside a layout's own work: gradients added up, copies, third gathers, kernels, a power limit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from course_lib.plan import MODELS, Constants, Job, Layout, Software, cluster_of, memory_parts, step_parts
from course_lib.plan.estimate.dp_comm_time import DataAxis, data_axis
from course_lib.plan.estimate.layer_time import element_bytes
from course_lib.plan.estimate.memory import stage_parameters
from course_lib.plan.estimate.step_time import gradient_sum_s
from course_lib.plan.inputs.profiles import constants_elsewhere, load_profiles, typical_constants
from course_lib.plan.inputs.stages import layers_of_stages
from course_lib.plan.runs.replayed import replayed_runs

MODEL = MODELS["llama-3-8b"]
JOB = Job(MODEL, 4096, 64)
NODE = cluster_of("8xh100")
C = Constants(host_layer_s=0.05e-3)
MEMORY = NODE.memory_bandwidth_bytes_per_s * C.memory_share


@pytest.mark.parametrize(("kept_bytes", "moved_bytes"), [(2, 2 + 2 + 2), (4, 4 + 4 - 2), (6, 2 + 4 + 4)])
def test_gradients_of_a_micro_batch_are_added_to_those_before(kept_bytes: int, moved_bytes: int) -> None:
    """Read, read and written; a product that adds has nothing else to write."""
    software = replace(Software(), gradient_bytes=kept_bytes)
    numbers = MODEL.attention_weights / 2 + MODEL.mlp_weights / 2 + MODEL.small_weights
    found = gradient_sum_s(JOB, Layout(tp=2, dp=4), NODE, C, software)
    assert found == pytest.approx(moved_bytes * numbers / MEMORY)


@pytest.mark.parametrize("layout", [Layout(dp=8, sharding=2), Layout(dp=8, sharding=3), Layout(dp=8, micro_batch=8)])
def test_shares_and_single_micro_batches_add_nothing_up(layout: Layout) -> None:
    assert gradient_sum_s(JOB, layout, NODE, C, Software()) == 0


def test_a_step_has_the_sums_once_for_each_micro_batch_and_layer() -> None:
    layout = Layout(dp=8)
    sums_s = gradient_sum_s(JOB, layout, NODE, C, Software())
    alone = step_parts(Job(MODEL, 4096, 8), layout, NODE, C, Software())  # one micro-batch: nothing to add to
    assert step_parts(JOB, layout, NODE, C, Software()).compute_s == pytest.approx(8 * (alone.compute_s + 32 * sums_s))


def axis(layout: Layout, software: Software) -> DataAxis:
    return data_axis(MODEL, layout, NODE, C, software, 32, 0.01, 8.0)


def test_sharding_3_copies_what_it_gathers_and_sends() -> None:
    layout = Layout(dp=8, sharding=3)
    with_it, without = (axis(layout, Software(copied_bytes=each)) for each in (14.0, 0.0))
    wanted_s = 8 * 14 * stage_parameters(MODEL, layout, 32, 2) / MEMORY
    assert with_it.exposed_s - without.exposed_s == pytest.approx(wanted_s)
    assert axis(Layout(dp=8, sharding=1), Software(copied_bytes=14.0)).copied_s == 0


def test_a_list_of_tensors_takes_its_host_a_moment_for_each_rank() -> None:
    layout = Layout(dp=8, sharding=3, recompute="full")
    lists = Software(gathers_again=True, sharded_calls_a_layer=6, listed_s=8e-6)
    more_s = axis(layout, lists).exposed_s - axis(layout, replace(lists, listed_s=0.0)).exposed_s
    assert more_s == pytest.approx(8 * 32 * 6 * (3 + 1) * 8 * 8e-6)  # micro-batches, layers, calls, passes, ranks
    assert axis(Layout(dp=8, sharding=1), lists).copied_s == 0


def test_a_run_whose_owners_tell_its_chunks_has_them_and_its_ends_have_a_layer_less() -> None:
    (llama,) = replayed_runs("llama3-405b")
    assert {one.chunks for one in llama.of.layouts} == {llama.of.profile.chunks} == {8}
    software = llama.of.profile.software("bfloat16")
    assert llama.of.run.job.model.layers + 2 == 8 * 16  # chunks of one layer each, but for the first and the last
    assert layers_of_stages(llama.of.run.job.model, 16, software) == (7, *[8] * 14, 7)
    assert layers_of_stages(llama.of.run.job.model, 1, software) == (126,)
    assert sum(layers_of_stages(llama.of.run.job.model, 9, software)) == 126


@pytest.mark.parametrize(("recompute", "gathers"), [("full", 3), ("selective", 2), ("none", 2)])
def test_weights_are_gathered_again_where_a_program_lets_go_of_them(recompute: str, gathers: int) -> None:
    found = axis(Layout(dp=8, sharding=3, recompute=recompute), Software(gathers_again=True))
    times = {one.what: one.times for one in found.sendings}
    assert times == {"gradients": 8 * 32, "weights": gathers * 8 * 32}
    kept = axis(Layout(dp=8, sharding=3, recompute="full"), Software())
    assert {one.times for one in kept.sendings if one.what == "weights"} == {2 * 8 * 32}


def test_operations_one_by_one_move_norms_and_rotations_through_float32() -> None:
    rows, h = 4096, 4096
    layout = Layout(tp=2, sequence_parallel=True)
    more = element_bytes(JOB, layout, fused=False) - element_bytes(JOB, layout)
    assert more == pytest.approx(rows * (2 * 32 * h / 2 + 16 * (h + h / 4) / 2))
    plain = Job(MODELS["gpt-2-xl"], 1024, 64)
    more = element_bytes(plain, Layout(), fused=False) - element_bytes(plain, Layout())
    assert more == pytest.approx(1024 * 2 * 32 * 1600)  # learned positions: nothing is rotated


def test_a_logit_has_as_many_bytes_as_its_loss_takes() -> None:
    ten, twelve = (
        memory_parts(JOB, Layout(micro_batch=2), NODE, C, replace(Software(), logit_bytes=each)).logits_bytes
        for each in (10, 12)
    )
    assert ten == 10 * 2 * 4096 * MODEL.vocab
    assert twelve == pytest.approx(1.2 * ten)


def test_a_power_limit_slows_the_clock_of_arithmetic_and_nothing_else() -> None:
    profile = load_profiles()["torchtitan H100-96", "H100-96GB"]
    limited, free = profile.machines(8, 8), replace(profile, clock_share=1.0).machines(8, 8)
    clock_share = ((500 - 70) / (700 - 70)) ** (1 / 3)  # power goes with the cube of the clock
    assert limited.peak_flops_per_s == pytest.approx(free.peak_flops_per_s * clock_share, rel=1e-3)
    assert replace(limited, peak_flops_per_s=free.peak_flops_per_s) == free


def test_a_table_of_another_program_has_its_facts_and_its_neighbours_do_not() -> None:
    profile = load_profiles()["Selene", "A100-80GB"]
    other, own = (profile.of_table(name).software("float16") for name in ("megatron-2021-t2-zero3", "korthikanti-t5"))
    assert (other.sharded_calls_a_layer, other.prefetches, other.gathers_again) == (6, False, True)
    assert (own.sharded_calls_a_layer, own.prefetches, own.gathers_again) == (1, True, False)
    assert profile.of_table("megatron-2021-t2-zero3").constants == profile.constants


def test_gradients_travel_in_half_where_a_program_says_so() -> None:
    foundry = load_profiles()["foundry", "H100-80GB"]
    assert foundry.software("bfloat16").reduce_bytes == 2
    assert replace(foundry, half_gradients=False).software("bfloat16").reduce_bytes == 4


def test_nvlink_that_owners_have_measured_tells_all_and_stands_for_what_the_runs_say() -> None:
    profiles = load_profiles()
    vtrain = profiles["vTrain", "A100-80GB"]
    assert (vtrain.tells("inside_share"), vtrain.value_of("inside_share")) == (1.0, 0.765)
    assert vtrain.value_of("matmul_share") == vtrain.constants.matmul_share
    assert constants_elsewhere(vtrain).inside_share == 0.765
    alone = typical_constants([replace(vtrain, told={})], [])
    assert alone.inside_share == pytest.approx((0.7 * 0.765) ** 0.5)
