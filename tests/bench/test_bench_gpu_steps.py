"""The measuring steps of ``course bench gpu`` on the CPU, each as short as it goes, and what they make of numbers."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from course_lib.bench.gpu import memory, meter, overlap, peak, strategies, timeline
from course_lib.bench.gpu.sizes import middle, widest
from course_lib.bench.gpu.task import Task
from course_lib.cluster import Rank
from course_lib.cost import flops, transformer_layers
from course_lib.devices import Device, Machine


@pytest.fixture
def task(tmp_path):
    return Task(tmp_path / "result.json", on_gpu=False, num_gpus=0, rounds=1, end_s=time.monotonic() + 300.0)


def outcomes(task: Task) -> dict[str, str]:
    return {part["name"]: part["outcome"] for part in task.parts}


def row(task: Task, what: str):
    return next(row for row in task.table.rows if row.what == what)


def test_the_ledger_and_the_formulas_agree(task):
    memory.run(task)
    found = outcomes(task)
    for name in ("CNN on digits", "transformer"):
        assert found[f"state by formula, {name}"] == "passed"
        assert found[f"peak by the allocator, {name}"] == "not run", "a CPU keeps no such count"
        assert row(task, f"peak by the ledger, {name}").median > 0


@pytest.mark.parametrize(
    ("allocator_bytes", "outcome"), [(101_000_000, "passed"), (99_000_000, "failed"), (180_000_000, "failed")]
)
def test_the_ledger_has_to_lie_below_the_allocator_by_little(task, allocator_bytes, outcome):
    from course_lib.meter.balance import Balance, Entry

    entry = Entry("parameter", "w", 100_000_000, "cuda:0")

    class Ledger:
        def peak(self):
            return Balance("at the peak", 0, (entry,), allocator_bytes, "cuda:0")

    memory._add_peak(task, "a model", Ledger())
    assert outcomes(task) == {"the ledger agrees with the allocator, a model": outcome}


def test_spans_of_the_host_need_no_gpu_and_the_others_say_that_they_do(task):
    timeline.run(task)
    found = outcomes(task)
    assert found.pop("spans of the host's waiting") == "passed"
    assert set(found.values()) == {"not run"}
    assert len(found) == 4


def test_a_step_is_timed_and_its_rate_told(task):
    peak.run(task)
    assert outcomes(task) == {"a step, float32": "passed"}
    num_flops = flops(transformer_layers(widest(False), batch_size=8)).total
    times_ms = row(task, "step, float32").samples
    rates = [num_flops / (1e-3 * time_ms) / 1e12 for time_ms in times_ms]
    assert row(task, "rate, float32").samples == pytest.approx(rates)
    assert not any(one.target for one in task.table.rows), "a trial on the CPU promises nothing"


@pytest.mark.parametrize(
    ("card", "promised"), [("NVIDIA H100 80GB HBM3", 50.0), ("NVIDIA A100-SXM4-80GB", None)]
)
def test_the_share_of_the_peak_is_of_the_data_sheet(task, monkeypatch, card, promised):
    here = Machine(2, 1, "a CPU", "Linux", "3.12", "2.11", devices=(Device(0, card, 80 * 10**9, "GPU-1"),))
    monkeypatch.setattr(peak, "machine", lambda: here)
    rate = 989e12 if "H100" in card else 312e12
    peak._add_share(task, "bfloat16 weights", int(rate / 10), [0.2, 0.25])
    (share,) = task.table.rows
    assert share.samples == pytest.approx((50.0, 40.0))
    assert (share.target, share.at_least) == (promised, True)
    assert share.meets_target is (False if promised else None)


def test_an_unknown_card_has_no_share(task, monkeypatch):
    here = Machine(2, 1, "a CPU", "Linux", "3.12", "2.11", devices=(Device(0, "NVIDIA B999", 1, "GPU-1"),))
    monkeypatch.setattr(peak, "machine", lambda: here)
    peak._add_share(task, "bfloat16 weights", 1, [1.0])
    assert not task.table.rows
    assert task.parts[0]["outcome"] == "not run"
    assert "NVIDIA B999" in task.parts[0]["why"]


def test_models_for_a_gpu_are_of_lesson_01s_class_and_wide():
    assert widest(False) == middle(False)
    assert (widest(True).width, widest(True).head_dim) == (4096, 128)
    assert middle(True).width > middle(False).width


# -- meter -----------------------------------------------------------------------------------------------------------

ON_EACH_RANK = {
    ("all_reduce", 4004): 1, ("all_gather", 4012): 1, ("reduce_scatter", 8040): 1, ("broadcast", 4028): 1,
    ("reduce", 4036): 1, ("all_reduce", 2022): 1, ("send", 4052): 1, ("recv", 4052): 1,
}  # fmt: skip


@pytest.mark.parametrize("missed", [False, True])
def test_the_meters_counts_are_held_against_the_log(task, monkeypatch, missed):
    """On gloo, with a log that says what NCCL would have been asked for; one call missing must show."""
    asked = Counter({call: 2 * times for call, times in ON_EACH_RANK.items()})
    if missed:
        asked["all_reduce", 12] += 1
    monkeypatch.setattr(meter, "asked_of_nccl", lambda lines, least_bytes: asked)
    meter._compare(task, "the same", "gloo", meter.each_collective)
    assert outcomes(task) == {"the same": "failed" if missed else "passed"}
    assert ("NCCL alone: {('all_reduce', 12): 1}" in task.parts[0]["why"]) is missed


def test_a_log_without_calls_proves_nothing(task):
    meter._compare(task, "the same", "gloo", meter.ddp_step)
    assert outcomes(task) == {"the same": "not run"}


# -- strategies and overlap ------------------------------------------------------------------------------------------


def test_every_way_of_a_step_is_timed_on_ranks(cluster2):
    from course_lib.bench import ddp

    (times, others) = cluster2.call(overlap.steps_s, (ddp.MODELS[0], 2), show=False)
    assert list(times) == ["without DDP", "torch", "the course", "the course without overlap"]
    assert all(len(samples) == 2 and min(samples) > 0 for samples in times.values())
    assert times == others, "the time of the slowest rank is every rank's"


def test_what_is_exposed_and_hidden_is_told_by_the_bare_step(task):
    six = {
        "without DDP": [0.100] * 6,
        "torch": [0.110] * 6,
        "the course": [0.120] * 6,
        "the course without overlap": [0.140] * 6,
    }
    overlap._add(task, "gloo", six)
    assert row(task, "exposed, torch, gloo").median == pytest.approx(10.0)
    assert row(task, "hidden of what is exposed without overlap, torch, gloo").median == pytest.approx(75.0)
    assert row(task, "hidden of what is exposed without overlap, the course, gloo").median == pytest.approx(
        50.0
    )
    assert row(task, "step, course / torch, gloo").median == pytest.approx(12 / 11)


def test_no_share_is_told_of_what_is_too_little(task):
    same = dict.fromkeys(("without DDP", "torch", "the course", "the course without overlap"), [0.1] * 6)
    overlap._add(task, "gloo", same)
    assert not [one for one in task.table.rows if one.what.startswith("hidden")]
    assert "too little is exposed" in task.notes["overlap, gloo"]


def test_a_strategy_that_fails_is_told_and_others_go_on(task, cluster2):
    def broken(me: Rank, rounds: int):
        raise RuntimeError("this strategy broke")

    def quick(me: Rank, rounds: int):
        from course_lib.bench.in_turns import compare_on_ranks

        return compare_on_ranks(lambda: None, lambda: None, names=("torch", "the course"), rounds=rounds)

    for name, function in {"broken": broken, "quick": quick}.items():
        strategies._add(task, cluster2, "gloo", (name, function, (), "torch", 1.0))
    assert outcomes(task) == {"broken, gloo": "failed", "quick, gloo": "passed"}
    assert "this strategy broke" in task.parts[0]["why"]
    assert row(task, "quick, gloo: course / torch").target is None, "judged on GPUs alone"


def test_pytorchs_pipeline_is_told_as_not_run_where_gloo_would_carry_it_from_a_gpu(task):
    task.on_gpu, task.num_gpus = True, 1
    (pipeline,) = [trial for trial in strategies._trials(task) if trial[0] == "pipeline, gpipe"]
    strategies._add(task, None, "gloo", pipeline)
    assert outcomes(task) == {"pipeline, gpipe, gloo": "not run"}
    assert "needs NCCL" in task.parts[0]["why"]


def test_on_gpus_larger_models_stand_beside_the_small_ones(task):
    small = {trial[0] for trial in strategies._trials(task)}
    task.on_gpu = True
    assert {"DDP, wide transformer on text", "block 1024 wide"} <= {
        t[0] for t in strategies._trials(task)
    } - small
