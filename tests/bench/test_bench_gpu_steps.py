"""The measuring steps of ``course bench gpu`` on the CPU, each as short as it goes, and what they make of numbers."""

from __future__ import annotations

import contextlib
from collections import Counter
from functools import partial
from types import SimpleNamespace

import pytest
from gpu_tasks import outcomes

from course_lib.authoring.bench.gpu.measurements import memory, meter, overlap, peak, strategies, timeline
from course_lib.authoring.bench.gpu.measurements.sizes import middle, widest
from course_lib.authoring.bench.gpu.task import BenchTask
from course_lib.cluster import Rank
from course_lib.cost import flops, transformer_layers
from course_lib.devices import Device, Machine


def row(task: BenchTask, what: str):
    return next(row for row in task.table.rows if row.what == what)


def test_the_ledger_and_the_formulas_agree(task):
    memory.run(task)
    found = outcomes(task)
    for name in ("CNN on digits", "transformer"):
        assert found[f"state by formula, {name}"] == "passed"
        assert found[f"peak by the allocator, {name}"] == "not run", "a CPU keeps no such count"
        assert row(task, f"peak by the ledger, {name}").median > 0


@pytest.mark.parametrize(
    ("allocator_bytes", "outcome"),
    [
        (101_000_000, "passed"),
        (190_000_000, "passed"),  # two workspaces of cuBLAS, 32 MiB each, and one of cuDNN
        (99_000_000, "failed"),
        (260_000_000, "failed"),
    ],
)
def test_the_ledger_has_to_lie_below_the_allocator_by_little(task, allocator_bytes, outcome):
    from course_lib.meter.memory.balance import Balance, Entry

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


@pytest.mark.parametrize(("card", "promised"), [("NVIDIA H100 80GB HBM3", 50.0), ("NVIDIA A100-SXM4-80GB", None)])
def test_the_share_of_the_peak_is_of_the_data_sheet(task, monkeypatch, card, promised):
    here = Machine(2, 1, "a CPU", "Linux", "3.12", "2.11", devices=(Device(0, card, 80 * 10**9, "GPU-1"),))
    monkeypatch.setattr(peak, "machine", lambda: here)
    rate = 989e12 if "H100" in card else 312e12
    peak._add_share(task, "bfloat16 weights", int(rate / 10), [0.2, 0.25])
    (share,) = task.table.rows
    assert share.samples == pytest.approx((50.0, 40.0))
    assert (share.target, share.at_least) == (promised, True)
    assert share.meets_target is (False if promised else None)


@pytest.mark.parametrize("name", ["NVIDIA H100 80GB HBM3 MIG 3g.40gb", "NVIDIA H100 80GB HBM3"])
def test_a_slice_of_a_card_is_not_held_to_the_cards_peak(task, monkeypatch, name):
    piece = Device(0, name, 40 * 10**9, "MIG-1", is_mig_slice=True)
    here = Machine(2, 1, "a CPU", "Linux", "3.12", "2.11", devices=(piece,))
    monkeypatch.setattr(peak, "machine", lambda: here)
    peak._add_share(task, "bfloat16 weights", 1, [1.0])
    assert not task.table.rows
    assert task.parts[0]["outcome"] == "not run"
    assert task.parts[0]["why"].endswith("a MIG slice")


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


class Hanging:
    """In place of clusters: every call hangs, and is ended at its limit."""

    def __init__(self, task):
        self.task, self.backends, self.limits_s = task, [], []

    def __call__(self, num_ranks, *, backend, timeout_s, env=None):
        self.backends.append(backend)
        return contextlib.nullcontext(SimpleNamespace(call=partial(self.call, timeout_s=timeout_s)))

    def call(self, *_, timeout_s, **__):
        self.limits_s.append(timeout_s)
        self.task.end_s -= timeout_s  # in place of waiting for so long
        raise TimeoutError(f"{timeout_s} s are over")


def test_back_ends_that_hang_leave_time_to_those_behind_and_gloo_is_first(task, monkeypatch):
    task.on_gpu, task.num_gpus = True, 1
    task.end_s = 80.0  # what the step has of 25 minutes
    hanging = Hanging(task)
    monkeypatch.setattr(meter, "backends_for", lambda task, num_ranks: ["gloo", "nccl-shared"])
    monkeypatch.setattr(meter, "Cluster", hanging)
    monkeypatch.setattr(meter, "metered", lambda cluster, function: cluster.call(function))
    meter.run(task)
    assert hanging.backends == ["gloo", *["nccl-shared"] * 3]
    assert len(hanging.limits_s) == 4
    assert list(outcomes(task).values()) == ["failed"] * 4
    assert task.end_s > 1.0


# -- strategies and overlap ------------------------------------------------------------------------------------------


def test_every_way_of_a_step_is_timed_on_ranks(cluster2):
    from course_lib.authoring.bench.strategies import ddp

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
    assert row(task, "hidden of what is exposed without overlap, the course, gloo").median == pytest.approx(50.0)
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
        from course_lib.authoring.bench.strategies.in_turns import compare_on_ranks

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


def test_a_strategy_that_hangs_leaves_time_to_those_behind(task):
    task.end_s = 80.0
    hanging = Hanging(task)
    for number in range(5):
        strategies._add(task, hanging, "nccl-shared", (f"{number}", None, (), "torch", None))
    assert list(outcomes(task).values()) == ["failed"] * 5
    assert hanging.limits_s == sorted(hanging.limits_s, reverse=True)
    assert len(set(hanging.limits_s)) == 5, "each asks what is left"
    assert task.end_s > 1.0


def crosses_by(me: Rank, function, arguments):
    """The names of the collectives that a trial makes."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU]) as trace:
        function(me, *arguments, 1)
    return {event.name for event in trace.events()}


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(
    "what",
    ["block 128 wide", "block 128 wide, sequence parallel", "all_gather, 4 MiB", "reduce_scatter, 4 MiB"],
)
def test_what_gloo_has_for_the_cpu_alone_is_told_as_not_run_on_a_gpu(task, cluster2, what):
    (trial,) = [trial for trial in strategies._trials(task) if trial[0] == what]
    crossed = cluster2.call(crosses_by, trial[1:3], show=False)[0]
    assert "c10d::allreduce_" in crossed
    assert bool(strategies._why_not_by_gloo(trial)) is ("c10d::allgather_into_tensor_coalesced_" in crossed)


def test_dtensors_sequence_parallel_is_told_as_not_run_by_gloo_on_gpus_alone(task, monkeypatch):
    """No rank is asked where it would crash; on the CPU, and by NCCL, it is."""
    asked = []
    cluster = SimpleNamespace(call=lambda *_, **__: asked.append(True) or [None])
    monkeypatch.setattr(task.table, "add_pair", lambda *_, **__: None)
    for on_gpu, backend in ((True, "gloo"), (False, "gloo"), (True, "nccl-shared")):
        task.on_gpu = on_gpu
        (trial,) = [trial for trial in strategies._trials(task) if trial[0] == "block 128 wide, sequence parallel"]
        strategies._add(task, cluster, backend, trial)
    assert [part["outcome"] for part in task.parts] == ["not run", "passed", "passed"]
    assert "gloo has for the CPU alone" in task.parts[0]["why"]
    assert len(asked) == 2


def test_on_gpus_larger_models_stand_beside_the_small_ones(task):
    small = {trial[0] for trial in strategies._trials(task)}
    task.on_gpu = True
    assert {"DDP, wide transformer on text", "block 1024 wide"} <= {t[0] for t in strategies._trials(task)} - small
