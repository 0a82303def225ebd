"""Advice: fewer GPUs where they are the better answer, more where days are few, and what a refused job needs."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from course_lib.plan import MODELS, Budget, Constants, Job, Layout, Software, cluster_of, list_layouts
from course_lib.plan.estimate.memory import MemoryParts
from course_lib.plan.estimate.step_time import StepParts
from course_lib.plan.inputs.cluster import ClusterSpec
from course_lib.plan.search.advice import advise
from course_lib.plan.search.budget import watts_of
from course_lib.plan.search.gpu_count_sweep import list_sizes, pick, size_table
from course_lib.plan.search.listing import Listing, Option

JOB = Job(MODELS["gpt-2"], seq=1024, batch=64)


@dataclass
class Made:
    """A lister whose step on so many GPUs is what a function says; None: it does not run there."""

    step_s: Callable[[int], float | None]

    def __call__(self, cluster: ClusterSpec, offload: bool) -> Listing:
        seconds = self.step_s(cluster.gpus)
        if seconds is None or offload:
            return Listing(JOB, cluster, (), ())
        step = StepParts(**(dict.fromkeys(StepParts.__dataclass_fields__, 0.0) | {"compute_s": seconds}))
        memory = MemoryParts(**dict.fromkeys(MemoryParts.__dataclass_fields__, 1e9))
        return Listing(JOB, cluster, (Option(Layout(dp=cluster.gpus), memory, step),), ())

    def on(self, gpus: int) -> Listing:
        return self(CLUSTER.with_gpus(gpus), False)


CLUSTER = cluster_of("8xh100", nodes=4)


def said(step_s: Callable[[int], float | None], gpus: int = 32, budget: Budget | None = None) -> str:
    lister = Made(step_s)
    return " ".join(advise(lister.on(gpus), lister, budget))


def test_a_cluster_that_is_well_used_is_not_talked_down() -> None:
    assert said(lambda gpus: 64 / gpus) == ""
    assert said(lambda gpus: 64 / gpus**0.9) == ""
    assert said(lambda gpus: 1.0, gpus=1) == ""
    assert said(lambda gpus: 1.0 if gpus == 32 else None) == ""


def test_fewer_that_are_as_fast_are_the_better_answer() -> None:
    found = said(lambda gpus: 1.0 if gpus >= 8 else 8 / gpus)
    assert "Fewer GPUs are the better answer: 8 reach 100% of the speed of 32 (dp8" in found
    assert said(lambda gpus: 1.0).startswith("One GPU is the better answer: 1 reaches 100% of the speed of 32")


def test_fewer_that_are_much_cheaper_are_told_with_the_price() -> None:
    """Each doubling is 1.2 times as fast: 32 GPUs are 2.49 times as fast as one, for 12.9 times the GPU hours."""
    found = said(lambda gpus: 1.2 ** -{1: 0, 2: 1, 4: 2, 8: 3, 16: 4, 32: 5}[gpus])
    assert "One GPU is the better answer, unless only time counts" in found
    assert "32 are 2.49 times as fast as 1, and cost 12.9 times the GPU hours" in found


def test_the_largest_of_the_cheapest_is_named() -> None:
    """Up to 8 GPUs nothing is lost; beyond that each doubling gains a fifth."""
    found = said(lambda gpus: 8 / gpus if gpus <= 8 else {16: 1 / 1.2, 32: 1 / 1.44}[gpus])
    assert "32 are 1.44 times as fast as 8, and cost 2.8 times the GPU hours" in found


def test_a_batch_that_the_gpus_do_not_divide_is_told_of() -> None:
    lister = Made(lambda gpus: 64 / gpus)
    odd = replace(lister.on(32), job=replace(JOB, batch=500))
    assert "A batch of 480 or 512 allows all of them" in " ".join(advise(odd, lister))
    small = replace(lister.on(32), job=replace(JOB, batch=30))
    assert advise(small, lister) == [
        "A batch of 30 cannot be shared out evenly among 32 GPUs. A batch of 32 would give each GPU one sequence."
    ]
    assert advise(replace(small, job=replace(JOB, batch=16)), lister) == []


def test_days_that_are_too_few_name_the_gpus_that_do() -> None:
    budget = Budget(tokens=86400.0 * JOB.tokens, days=10.0)  # a step of a second is a day
    found = said(lambda gpus: 1280 / gpus, budget=budget)
    assert found == "The fastest takes 40 days, and 10 were asked for: 128 GPUs take 10 days (dp128 mb1)."
    never = said(lambda gpus: 40.0, budget=budget)
    assert "with this batch no number of GPUs is fast enough. The nearest is 40 days, with 32 GPUs" in never
    assert said(lambda gpus: 128 / gpus, budget=budget) == ""


def test_what_does_not_fit_on_any_number_is_said() -> None:
    job = Job(MODELS["llama-3-8b"], seq=8192, batch=8)

    def tight(cluster: ClusterSpec, offload: bool) -> Listing:
        return list_layouts(job, cluster, Constants(), Software(), memory_bytes=3e9, layouts=[Layout(dp=cluster.gpus)])

    found = " ".join(advise(tight(CLUSTER.with_gpus(8), False), tight))
    assert "To make it fit: " in found
    assert "It does not fit with more GPUs either, up to 32,768." in found


def test_gpus_that_a_batch_cannot_keep_busy_are_told_of(capsys) -> None:
    job = Job(MODELS["gpt-2"], seq=256, batch=1)

    def lister(cluster: ClusterSpec, offload: bool) -> Listing:
        return list_layouts(job, cluster, Constants(), Software(), offload=offload)

    found = " ".join(advise(lister(CLUSTER.with_gpus(4096), False), lister))
    assert "1 sequences of 256 tokens and 12 layers are too few to share out among 4,096 GPUs" in found
    assert "The nearest number of GPUs on which it runs is" in found


def test_sizes_are_whole_machines_and_one_is_picked() -> None:
    lister = Made(lambda gpus: None if gpus < 2 else max(1.0, 16 / gpus))

    def sizes(most: int, budget: Budget) -> list[Listing]:
        return list_sizes(CLUSTER, most, JOB, lister, budget)

    found = sizes(50, Budget())
    assert [one.cluster.gpus for one in found] == [1, 2, 4, 8, 16, 32]  # and 48 would gain nothing
    assert pick(found, Budget()).cluster.gpus == 16  # as fast as 32
    budget = Budget(tokens=86400.0 * JOB.tokens, days=4.0)
    found = sizes(50, budget)
    assert [one.cluster.gpus for one in found] == [1, 2, 4]
    assert pick(found, budget).cluster.gpus == 4
    late = Budget(tokens=86400.0 * JOB.tokens, days=0.5)
    found = sizes(50, late)
    assert [one.cluster.gpus for one in found] == [1, 2, 4, 8, 16, 32, 48]
    assert pick(found, late).cluster.gpus == 16
    shown = size_table(found, budget)
    assert re.search(r"^ +1 +none runs$", shown, re.MULTILINE)
    assert re.search(r"^ +4 +4.00 s .* 4.00  dp4 mb1$", shown, re.MULTILINE)
    assert pick(sizes(1, Budget()), Budget()).best is None
    with pytest.raises(ValueError, match="max_gpus=0 does not work"):
        sizes(0, Budget())


def test_gpus_that_cannot_hold_the_states_are_passed_over() -> None:
    """405.9 billion parameters in 16 bytes are 6,494 GB: 76 GPUs of 85.5 GB and more."""
    asked: list[int] = []
    job = Job(MODELS["llama-3-405b"], seq=1024, batch=64)

    def lister(cluster: ClusterSpec, offload: bool) -> Listing:
        asked.append(cluster.gpus)
        return Listing(job, cluster, (), ())

    list_sizes(CLUSTER, 256, job, lister, Budget())
    assert asked == [128, 256]
    asked.clear()
    list_sizes(CLUSTER, 8, job, lister, Budget())
    assert asked == [8]  # the largest, to be told why not
    asked.clear()
    list_sizes(CLUSTER, 8, job, lister, Budget(), offload=True)
    assert asked == [1, 2, 4, 8]


def test_a_small_model_is_best_on_one_gpu() -> None:
    job = Job(MODELS["gpt-2"], seq=256, batch=4)

    def lister(cluster: ClusterSpec, offload: bool) -> Listing:
        return list_layouts(job, cluster, Constants(), Software(), offload=offload)

    found = " ".join(advise(lister(cluster_of("8xh100", gpus=4), False), lister))
    assert found.startswith("One GPU is the better answer")


def test_budgets_and_watts() -> None:
    assert watts_of("72x GB200") == 1200.0 != watts_of("8x B200")
    assert watts_of("8x H100") == 700.0
    assert watts_of("something else") is None
    with pytest.raises(ValueError, match="above zero"):
        Budget(tokens=0.0)
