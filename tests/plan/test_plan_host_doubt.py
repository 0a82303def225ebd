"""A host that is faster or slower than told: what it does to a step, to a band, and to what is said of a layout."""

from __future__ import annotations

from dataclasses import replace
from math import exp

import pytest

from course_lib.plan import KINDS, MODELS, Constants, Job, Layout, Software, cluster_of, list_layouts, memory_parts
from course_lib.plan.estimate.host_doubt import HOST_DOUBT, HostDoubt
from course_lib.plan.estimate.step_time import step_parts
from course_lib.plan.inputs.error_bands import ALL_KINDS, ErrorBand, error_bands
from course_lib.plan.output.certainty import band_of, certainty, step_band
from course_lib.plan.runs.bands import bands_of, in_their_bands
from course_lib.plan.runs.kept_apart import KeptApart
from course_lib.plan.runs.published import read_runs
from course_lib.plan.runs.replayed import REPLAYED_FILE, replayed_runs

NODE, SOFTWARE, C = cluster_of("8xh100"), Software(), Constants()
SMALL, LARGE = Job(MODELS["gpt-2"], 1024, 512), Job(MODELS["llama-3-8b"], 8192, 64)
SHORT, LONG = Layout(dp=8, micro_batch=1), Layout(dp=8, micro_batch=1, sharding=3, recompute="full")


def step_s(job: Job, layout: Layout, host_layer_s: float) -> float:
    return step_parts(job, layout, NODE, replace(C, host_layer_s=host_layer_s), SOFTWARE).total_s


def test_a_host_is_in_doubt_by_the_spread_of_what_is_typical() -> None:
    assert pytest.approx(exp(1.28 * KINDS["host_layer_s"].spread), abs=0.05) == HOST_DOUBT


def test_a_slower_host_makes_short_passes_longer_and_long_ones_not() -> None:
    low, high = HostDoubt(SMALL, NODE, C, SOFTWARE).reach(SHORT, 2.0)
    told_s = step_s(SMALL, SHORT, C.host_layer_s)
    assert low == pytest.approx(step_s(SMALL, SHORT, C.host_layer_s / 2) / told_s)
    assert high == pytest.approx(step_s(SMALL, SHORT, C.host_layer_s * 2) / told_s)
    assert low < 1 < high
    assert HostDoubt(SMALL, NODE, C, SOFTWARE).reach(SHORT, 1.0) == (1.0, 1.0)
    assert HostDoubt(LARGE, NODE, C, SOFTWARE).reach(LONG, 2.0) == (1.0, 1.0)


def test_no_host_leaves_the_bounds_of_what_a_host_may_take() -> None:
    slow = replace(C, host_layer_s=KINDS["host_layer_s"].highest)
    low, high = HostDoubt(SMALL, NODE, slow, SOFTWARE).reach(SHORT, 2.0)
    assert low < high == 1.0


def test_a_band_reaches_as_far_as_the_host_may_bring_the_step() -> None:
    listing = list_layouts(SMALL, NODE, C, SOFTWARE, layouts=[SHORT])
    bands = error_bands("elsewhere")
    plain, wide = bands.time_band(NODE, SHORT), band_of(listing, listing.options[0], bands)
    low, high = listing.reach(SHORT, HOST_DOUBT)
    assert bands.host == HOST_DOUBT
    assert (wide.low, wide.high) == (plain.low * low, plain.high * high)
    measured = error_bands("more")  # its own runs have told the host of a cluster
    assert measured.host == 1.0
    assert band_of(listing, listing.options[0], measured) == measured.time_band(NODE, SHORT)


def test_what_is_said_names_the_host_where_it_may_set_the_pace_and_nowhere_else() -> None:
    short, long = (
        list_layouts(job, NODE, C, SOFTWARE, layouts=[layout]) for job, layout in ((SMALL, SHORT), (LARGE, LONG))
    )
    bands = error_bands("elsewhere")
    said, unsaid = (" ".join(certainty(one, one.options[0], bands)) for one in (short, long))
    assert "set the pace" in said
    assert "0.36 to 2.8 times" in said
    assert step_band(short, short.options[0], bands) in said
    assert "host" not in unsaid


def slower(factor: float, cluster: str) -> list[KeptApart]:
    """Runs of four layouts that took as long as with a host that is ``factor`` times slower than told."""
    run = replayed_runs("ultra-scale")[0].of
    layouts = [Layout(tp=4, dp=2, micro_batch=size, sequence_parallel=True) for size in (1, 2, 4, 8)]
    judged = []
    for layout in layouts:
        ready = replace(run, layouts=(layout,), run=replace(run.run, layout=layout, gpus=8, cluster=cluster))
        step = ready.step_s(replace(C, host_layer_s=C.host_layer_s * factor))
        judged.append(KeptApart(replace(ready, run=replace(ready.run, step_s=step)), C))
    return judged


def test_errors_that_a_host_explains_are_no_part_of_a_band() -> None:
    assert read_runs(REPLAYED_FILE)[1] == {}
    judged = [*slower(2.0, "a"), *slower(2.5, "b")]
    assert bands_of(judged, 2.8).time[ALL_KINDS] == ErrorBand(1.0, 1.0, 8, 2)
    assert bands_of(judged).time[ALL_KINDS].high > 1.2
    others = slower(1.0, "c")
    table = judged[0].run.run.table
    assert in_their_bands([*judged, *others], host=2.8) == {table: (12, 12)}
    assert in_their_bands([*slower(2.5, "b"), *others])[table][0] < 8


def test_nanotron_holds_three_whole_tensors_where_a_sequence_is_shared_out() -> None:
    layout = Layout(tp=8, sequence_parallel=True, micro_batch=2)
    three = replace(SOFTWARE, gathered_buffers=3)
    with_them, without = (memory_parts(LARGE, layout, NODE, C, one).activations_bytes for one in (three, SOFTWARE))
    assert with_them - without == pytest.approx(3 * 2 * 2 * 8192 * 4096)
    whole = replace(layout, sequence_parallel=False)
    assert memory_parts(LARGE, whole, NODE, C, three) == memory_parts(LARGE, whole, NODE, C, SOFTWARE)
    assert replayed_runs("ultra-scale")[0].of.profile.software("bfloat16").gathered_buffers == 3
