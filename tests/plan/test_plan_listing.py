"""Listings: every rule with its sentence, memory with its number, the ranking, and what to do instead."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from course_lib.base.checks import nearest_divisor
from course_lib.plan import (
    MODELS,
    Constants,
    Job,
    Layout,
    MemoryParts,
    Software,
    cluster_of,
    memory_parts,
    step_parts,
)
from course_lib.plan.search.advice import advise
from course_lib.plan.search.constraints import divisions, divisors, why_illegal
from course_lib.plan.search.listing import Refusal, list_layouts
from course_lib.plan.search.search_space import candidates

JOB = Job(MODELS["llama-3-8b"], seq=8192, batch=64)
MIXTURE = Job(MODELS["mixtral-8x7b"], seq=8192, batch=64)


def listing(job: Job = JOB, gpus: int = 8, **others):
    return list_layouts(job, cluster_of("8xh100", gpus=gpus), Constants(), Software(), **others)


@pytest.mark.parametrize(
    ("layout", "job", "gpus", "why"),
    [
        (Layout(tp=2), JOB, 8, "tp x cp x pp x dp is 2, and there are 8 GPUs"),
        (Layout(tp=3), JOB, 3, "tp=3 does not divide the 32 heads: the nearest is 2"),
        (Layout(cp=3), JOB, 3, "cp=3 needs 6 equal pieces of 8192 tokens: the nearest is 2"),
        (Layout(ep=3, dp=4), MIXTURE, 4, "ep=3 does not divide the 8 experts: the nearest is 2"),
        (Layout(ep=8, dp=4), MIXTURE, 4, "ep=8 does not divide dp=4: the nearest is 4"),
        (Layout(dp=128), JOB, 128, "dp=128 ranks share a batch of 64: dp is at most 64"),
        (Layout(dp=3, micro_batch=2), JOB, 3, "do not divide a batch of 64: the nearest batch is 66"),
        (Layout(pp=33), JOB, 33, "33 stages for 32 layers"),
        (Layout(chunks=2), JOB, 1, "2 chunks without a pipeline"),
        (
            Layout(pp=2, dp=64, chunks=2),
            JOB,
            128,
            "interleaving needs a multiple of pp=2 micro-batches: the number is 1",
        ),
        (Layout(tp=8, sharding=1), JOB, 8, "here that is 1 rank, so take sharding 0"),
        (Layout(dp=8, sharding=3, shard_size=3), JOB, 8, "shard_size=3 does not divide 8 ranks"),
        (Layout(pp=2, dp=4, sharding=2), JOB, 8, "use 1 or 3"),
        (Layout(dp=8, sequence_parallel=True), JOB, 8, "tp is 1: leave it out"),
    ],
)
def test_what_is_illegal_is_said(layout: Layout, job: Job, gpus: int, why: str) -> None:
    assert why in (why_illegal(job, layout, gpus) or "")


def test_divisions_are_all_ways_to_cut_the_gpus_within_the_limits() -> None:
    for gpus in (1, 7, 24):
        sizes = range(1, gpus + 1)
        wanted = [
            (tp, pp, cp, dp)
            for tp, pp, cp, dp in itertools.product(sizes, repeat=4)
            if tp * pp * cp * dp == gpus and tp <= 4 and pp <= 8 and cp <= 2
        ]
        assert list(divisions(gpus, most_tp=4, most_pp=8, most_cp=2)) == wanted


def test_the_nearest_divisor_is_the_nearest_of_all() -> None:
    for of in (*range(1, 40), 1000001):
        every = [d for d in range(1, of + 1) if of % d == 0]
        for value in (1, 2, 3, 5, 8, 30, of - 1, of, of + 5):
            assert nearest_divisor(value, of) == min(every, key=lambda d: abs(d - value))


def test_widths_and_key_value_heads_must_divide() -> None:
    odd = Job(replace(JOB.model, ffn=14337), 8192, 64)
    assert "tp=2 does not divide the MLP's width" in (why_illegal(odd, Layout(tp=2), 2) or "")
    grouped = Job(replace(JOB.model, heads=32, kv_heads=8, ffn=14336 * 3), 8192, 64)
    assert why_illegal(grouped, Layout(tp=16), 16) is None  # two ranks share a key/value head
    six = Job(replace(JOB.model, hidden=4608, heads=36, kv_heads=6, head_dim=128, ffn=14400), 8192, 64)
    assert "tp=4 and 6 key/value heads" in (why_illegal(six, Layout(tp=4), 4) or "")


def test_options_fit_are_legal_and_ranked() -> None:
    found = listing()
    assert found.options
    limit = 0.93 * found.cluster.memory_bytes
    times = [float(f"{option.step_s:.3g}") for option in found.options]
    assert times == sorted(times)
    for option in found.options:
        assert why_illegal(JOB, option.layout, 8) is None
        assert option.memory.total_bytes <= limit
    best = found.best
    assert best is not None
    assert best.step == step_parts(JOB, best.layout, found.cluster, Constants(), Software())
    assert best.memory == memory_parts(JOB, best.layout, found.cluster, Constants(), Software())


def test_what_does_not_fit_says_by_what_and_what_would_help() -> None:
    found = listing(gpus=1)
    assert found.best is None
    nearest = found.nearest
    assert nearest is not None
    total, largest = nearest.memory.total_bytes / 1e9, nearest.memory.optimizer_bytes / 1e9
    assert nearest.why == f"{total:.1f} of 79.5 GB: optimizer {largest:.1f}"
    assert "sharding 1" in nearest.instead
    assert found.reasons()[0][0] == "memory, mostly optimizer"
    assert sum(count for _, count in found.reasons()) == len(found.refusals)


@pytest.mark.parametrize(
    ("largest", "layout", "instead"),
    [
        ("weights", Layout(dp=8, sharding=1), "cut with tp or pp or shard with sharding 3"),
        ("weights", Layout(dp=8, sharding=3), "cut with tp or pp"),
        ("gradients", Layout(dp=8), "shard with sharding 2 or 3 or cut with tp or pp"),
        ("gradients", Layout(dp=8, sharding=2), "cut with tp or pp"),
        (
            "optimizer",
            Layout(dp=8),
            "shard with sharding 1 over more data ranks, cut with tp or pp, or offload",
        ),
        (
            "optimizer",
            Layout(dp=8, sharding=3),
            "shard over more data ranks, cut with tp or pp, or offload",
        ),
        (
            "activations",
            Layout(dp=4, micro_batch=2),
            "recompute, take smaller micro-batches, or cut with tp or cp",
        ),
        ("activations", Layout(dp=8, recompute="selective"), "recompute whole layers or cut with tp or cp"),
        ("activations", Layout(dp=8, recompute="full"), "cut with tp or cp"),
        ("logits", Layout(dp=4, micro_batch=2), "take smaller micro-batches or cut with tp or cp"),
        ("logits", Layout(dp=8), "cut with tp or cp"),
        ("reserve", Layout(dp=8), "take GPUs with more memory"),
    ],
)
def test_what_would_help_is_nothing_that_the_layout_does_already(largest, layout, instead) -> None:
    sizes = {name: 2e9 if name == f"{largest}_bytes" else 1e9 for name in MemoryParts.__dataclass_fields__}
    assert Refusal(layout, "", MemoryParts(**sizes)).instead == instead
    assert Refusal(layout, "").instead == ""


def test_a_limit_on_memory_holds() -> None:
    wide, tight = listing(), listing(memory_bytes=30e9)
    assert len(tight.options) < len(wide.options)
    assert all(option.memory.total_bytes <= 30e9 for option in tight.options)
    assert len(tight.options) + len(tight.refusals) == len(wide.options) + len(wide.refusals)


def test_a_gpu_is_not_filled_to_the_last_byte() -> None:
    """Above 93 % of its memory a layout is refused, whatever limit is asked for."""
    tightest = max(option.memory.total_bytes for option in listing().options)
    assert tightest <= 0.93 * 85_520_809_984
    assert listing(memory_bytes=85e9).options == listing().options
    refused = min(one.memory.total_bytes for one in listing().refusals if one.memory is not None)
    assert 0.93 * 85_520_809_984 < refused < 85_520_809_984


def test_layouts_that_are_asked_for() -> None:
    asked = [Layout(tp=8, sequence_parallel=True), Layout(tp=4)]
    found = listing(layouts=asked)
    assert [option.layout for option in found.options] == asked[:1]
    assert found.refusals[0].why.startswith("tp x cp x pp x dp is 4")


def test_every_way_to_divide_the_gpus_is_a_candidate() -> None:
    assert divisors(12) == (1, 2, 3, 4, 6, 12)
    axes = {(one.tp, one.cp, one.pp, one.dp) for one in candidates(JOB, cluster_of("8xh100", nodes=2))}
    for tp in (1, 2, 4, 8, 16):
        for pp in (1, 2, 4, 8, 16):
            if tp * pp <= 16:
                assert (tp, 1, pp, 16 // (tp * pp)) in axes
    every = list(candidates(MIXTURE, cluster_of("8xh100", nodes=2)))
    assert {one.ep for one in every} == {1, 2, 4, 8}
    assert {one.sharding for one in every} == {0, 1, 2, 3}
    assert any(one.shard_size == 8 for one in every)


def lister(job: Job):
    return lambda cluster, offload: list_layouts(job, cluster, Constants(), Software(), offload=offload)


def test_fewer_gpus_are_the_better_answer_for_little_work() -> None:
    job = Job(MODELS["gpt-2"], seq=128, batch=1)
    cluster = cluster_of("8xh100", nodes=2)
    (said,) = advise(lister(job)(cluster, False), lister(job))
    assert said.startswith("One GPU is the better answer")
    assert advise(listing(), lister(JOB)) == []


def test_more_gpus_than_the_batch_feeds_are_told_of() -> None:
    job = Job(MODELS["llama-3-8b"], seq=2048, batch=8)
    cluster = cluster_of("8xh100", nodes=8)
    said = " ".join(advise(lister(job)(cluster, False), lister(job)))
    assert "Fewer GPUs are the better answer" in said or "A larger batch gives them work" in said


def test_the_nearest_that_runs_is_named() -> None:
    job = Job(MODELS["llama-3-70b"], seq=8192, batch=16)
    cluster = cluster_of("8xh100")
    found = lister(job)(cluster, False)
    said = advise(found, lister(job))
    assert said[0].startswith("The nearest was ")
    assert any("With --offload it runs" in one for one in said)
    assert any("nearest number of GPUs on which it runs is" in one for one in said)


@pytest.mark.parametrize(
    ("over_bytes", "why"),
    [(1e9, "40.4 of 39.4 GB: "), (10e6, "40.38 of 40.37 GB: "), (1e5, "40.3817 of 40.3816 GB: ")],
)
def test_what_is_needed_and_what_there_is_are_told_apart(over_bytes: float, why: str) -> None:
    layout, cluster = Layout(dp=8, sharding=3, recompute="full"), cluster_of("8xh100")
    needed = memory_parts(JOB, layout, cluster, Constants(), Software()).total_bytes
    found = list_layouts(JOB, cluster, Constants(), Software(), memory_bytes=needed - over_bytes, layouts=[layout])
    assert found.refusals[0].why.startswith(why)
