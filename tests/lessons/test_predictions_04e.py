"""What part e of lesson 04 tells of a real job's trace, and that the trace says so."""

from __future__ import annotations

import pytest
from told_runs import ToldRuns, usual_runs

from course_lib.learn.exercises.lesson_04.predictions.trace import TRACE
from course_lib.traces import table_rows, trace_report

ASKED = {asked.name: asked for asked in TRACE}
SIZES = [8_196_000, 31_502_336, 26_255_360, 26_550_272, 9_724_160]
BY_KIND = {"running_mean": 106_240, "running_var": 106_240, "num_batches_tracked": 424, "weight": 102_117_888}

RUNS = [  # name, what ran, what is measured, what the model says
    ("04.trace_calls", ([SIZES] * 3,), "5", None),
    ("04.trace_calls", ([[102_228_128]] * 3,), "1", None),
    ("04.trace_sent", ([212_480, 424], BY_KIND), "what its BatchNorm layers have counted", None),
    ("04.trace_first", (39.5, 159, 38.8), 39.5, None),
    ("04.trace_hidden", (7_681.0, 46_900.0, 3), 16.4, None),
    ("04.trace_busy", (118_300.0, 3, 222_400.0), 39.4, None),
    ("04.trace_host", (509_700.0, 110.1, 31.1), "the host, which launches the kernels", None),
]
USUAL = usual_runs(RUNS)


class TestToldRuns(ToldRuns):
    asked, runs, guesses = ASKED, RUNS, (0.2, 90)
    one_sided = ("04.trace_calls",)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("04.trace_calls", ["102,228,128 bytes", "25,557,032 numbers"]),
        ("04.trace_first", ["take 39 us", "159 copies"]),
        ("04.trace_hidden", ["13.1 ms of each step are exposed"]),
        ("04.trace_busy", ["18 % of the step"]),
        ("04.trace_host", ["waited 110 us", "510 ms", "31 us later"]),
    ],
)
def test_what_is_told_has_the_numbers_of_the_run(name, said):
    because = ASKED[name].tell(*USUAL[name].given).because
    assert all(part in because for part in said), because


def test_a_host_that_waits_is_not_blamed():
    assert ASKED["04.trace_host"].tell(100_000.0, 90_000.0, 5_000.0).measured == "the other rank"
    assert ASKED["04.trace_sent"].tell([102_228_128], BY_KIND).measured == "rank 0's weights"


def test_the_trace_says_what_the_page_and_its_reveals_say():
    rows, time = table_rows("ddp_resnet_2xa100"), trace_report("ddp_resnet_2xa100").devices[0].time
    kernels = [row for row in rows if row.lane == "7"]
    step_us = sum(row.duration_us for row in rows if row.name.startswith("ProfilerStep"))
    assert step_us > 3 * sum(row.duration_us for row in kernels)  # "several times as long as the kernel takes the GPU"
    assert not any(row.name.startswith(("Memcpy HtoD", "Memcpy DtoH")) for row in rows)
    calls = [row for row in rows if row.collective == "allreduce"]
    backwards = [row for row in rows if row.name == "## backward ##"]
    assert all(any(one.start_us < call.start_us < one.end_us for one in backwards) for call in calls)
    by_bytes = sorted(calls[:5], key=lambda call: call.size_bytes)
    assert by_bytes[0].duration_us > by_bytes[-1].duration_us  # the fewest bytes took longer than the most
    inside_us = sum(dict(trace_report("ddp_resnet_2xa100").devices[0].idle.by_annotation).values())
    assert inside_us == pytest.approx(time.idle_us)
    assert dict(trace_report("ddp_resnet_2xa100").devices[0].idle.by_annotation)[""] < 0.01 * time.idle_us
