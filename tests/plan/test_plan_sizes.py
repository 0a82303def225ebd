"""How many GPUs: which sizes are looked at, which one is picked, and when a plan is in time."""

from __future__ import annotations

from dataclasses import fields

import pytest

from course_lib.plan import MODELS, Budget, Constants, Job, Layout, Software, cluster_of
from course_lib.plan.estimate.memory import MemoryParts
from course_lib.plan.estimate.step_time import StepParts
from course_lib.plan.inputs.cluster import ClusterSpec
from course_lib.plan.inputs.profiles import load_profiles, typical_constants
from course_lib.plan.search.advice import advise
from course_lib.plan.search.gpu_count_sweep import list_sizes, pick
from course_lib.plan.search.listing import Listing, Option, list_layouts
from course_lib.plan_command.options import parse
from course_lib.plan_command.request import request_of

JOB = Job(MODELS["gpt-2"], seq=256, batch=1 << 12)
NO_BYTES = MemoryParts(*[0.0] * len(fields(MemoryParts)))


def made(cluster: ClusterSpec, offload: bool = False) -> Listing:
    """One layout, whose step is 64 s on one GPU and shorter on more."""
    step = StepParts(64.0 / cluster.gpus, *[0.0] * (len(fields(StepParts)) - 1))
    return Listing(JOB, cluster, (Option(Layout(dp=cluster.gpus), NO_BYTES, step),), ())


def sizes(machine: str, most: int) -> list[int]:
    return [one.cluster.gpus for one in list_sizes(cluster_of(machine), most, JOB, made, Budget())]


def test_beyond_one_machine_sizes_are_whole_machines() -> None:
    assert sizes("72xgb200", 300) == [1, 2, 4, 8, 16, 32, 64, 72, 216, 288]
    assert sizes("8xh100", 20) == [1, 2, 4, 8, 16]


def test_the_most_that_may_be_is_looked_at() -> None:
    assert sizes("8xh100", 6) == [1, 2, 4, 6]
    assert sizes("8xh100", 1) == [1]


def test_the_fewest_in_time_are_picked_of_all_that_are() -> None:
    budget = Budget(tokens=86400.0 * JOB.tokens, days=10.0)  # a step of a second is a day
    listings = [made(cluster_of("8xh100", gpus=gpus)) for gpus in (4, 8, 16, 32)]
    assert pick(listings, budget).cluster.gpus == 8


@pytest.mark.parametrize(("days", "met"), [(8.01, True), (8.0, True), (7.99, False)])
def test_in_time_is_in_time(days: float, met: bool) -> None:
    budget = Budget(tokens=86400.0 * JOB.tokens, days=days)
    assert budget.is_in_time(made(cluster_of("8xh100", gpus=8))) == met


def test_what_offloading_would_do_is_listed_with_offloading() -> None:
    job = Job(MODELS["llama-3-8b"], seq=2048, batch=8)

    def lister(cluster: ClusterSpec, offload: bool) -> Listing:
        return list_layouts(job, cluster, Constants(), Software(), offload=offload)

    found = " ".join(advise(lister(cluster_of("8xh100", gpus=1), False), lister))
    assert "With --offload it runs: one GPU" in found


@pytest.mark.parametrize(("machine", "gpu"), [("8xa100", "A100-80GB"), ("8xh100", "H100-80GB")])
def test_constants_are_typical_of_clusters_with_the_same_gpu(machine: str, gpu: str) -> None:
    asked = request_of(parse(["--model", "gpt-2", "--batch", "8", "--seq", "256", "--machine", machine]))
    alike = [one for (_, name), one in load_profiles().items() if name == gpu]
    assert asked.constants == typical_constants(alike)
    assert asked.constants != typical_constants(list(load_profiles().values()))
