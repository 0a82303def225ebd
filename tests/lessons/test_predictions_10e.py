"""What part e of lesson 10 tells of a real job's trace and of two micro-batches, and that the trace says so."""

from __future__ import annotations

import pytest
from told_runs import ToldRuns, usual_runs

from course_lib.learn.exercises.lesson_10.predictions.exchange import EXCHANGE
from course_lib.traces import table_rows, trace_report
from course_lib.traces.intervals import common, length, minus, union

ASKED = {asked.name: asked for asked in EXCHANGE}
ASKED_US = [1692.0, 517.0, 814.0, 617.0, 1438.0, 996.0]
LEFT_US = [0.0, 172.0, 8591.0, 7576.0, 6793.0, 8179.0]
HIDDEN_US = [0.0, 0.0, 5129.0, 3464.0, 3064.0, 4170.0]
ROWS_US = [3088.0, 4745.0, 12_527.0, 11_374.0, 12_621.0, 12_600.0]

RUNS = [  # name, what ran, what is measured, what the model says
    ("10.trace_next", (15_827.0, 38_710.0), 41, None),
    (
        "10.trace_why",
        (ASKED_US, LEFT_US, HIDDEN_US, ROWS_US),
        "the host waits for counts, and launches no backward meanwhile",
        None,
    ),
    ("10.trace_most", ([5988.0, 8171.0, 580.0, 972.0, 4212.0, 2960.0], 87_267.0, 464_949.0), 4.9, None),
    ("10.two_hidden", (3, 4), 3, 3),
    ("10.two_memory", (2_000_100, 1_000_000), 2.0, 2),
]
USUAL = usual_runs(RUNS)
FAR = [("10.two_hidden", (0, 4)), ("10.two_memory", (1_100_000, 1_000_000))]


class TestToldRuns(ToldRuns):
    asked, runs, far, guesses = ASKED, RUNS, FAR, (0, 1, 19, 100)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("10.trace_next", ["22.9 of 38.7 ms"]),
        (
            "10.trace_why",
            [
                "In 6 of 6 steps",
                "Where this rest was 0.0 ms, 0.0 ms were hidden",
                "8.6 ms, up to 5.1 ms",
                "for 11.4 ms or more",
            ],
        ),
        ("10.trace_most", ["22.9 of 465 ms", "is 19 % of the time"]),
    ],
)
def test_what_is_told_has_the_numbers_of_the_run(name, said):
    because = ASKED[name].tell(*USUAL[name].given).because
    assert all(part in because for part in said), because


def test_a_host_that_does_not_wait_is_not_blamed():
    assert (
        ASKED["10.trace_why"].tell([-1.0] * 6, LEFT_US, HIDDEN_US, ROWS_US).measured
        == "the device waits for what they bring"
    )


ROWS = sorted(table_rows("recommender_rank3_of_8xa100"), key=lambda row: row.start_us)
SENT = [row for row in ROWS if row.collective]
CALLS = [row for row in ROWS if row.name.startswith("nccl:")]
STEPS = [row for row in ROWS if row.name.startswith("ProfilerStep")]
COMPUTING = union(
    [
        (row.start_us, row.end_us)
        for row in ROWS
        if row.lane in ("7", "20") and "HtoD" not in row.name and "DtoH" not in row.name
    ]
)


def test_it_holds_ten_exchanges_a_step_on_one_stream_in_the_order_of_the_calls():
    assert {row.lane for row in SENT} == {"21"}
    assert [row.collective for row in SENT] == [call.name.removeprefix("nccl:") for call in CALLS]
    assert [row.collective for row in SENT] == (["all_to_all"] * 7 + ["all_reduce"] * 3) * 6
    assert all(call.start_us < row.start_us for call, row in zip(CALLS, SENT, strict=True))
    for number, step in enumerate(STEPS):
        assert all(step.start_us <= row.start_us < step.end_us for row in SENT[10 * number : 10 * number + 10])


def test_computing_and_communication_are_what_the_report_says():
    time = trace_report("recommender_rank3_of_8xa100").devices[0].time
    spans = union([(row.start_us, row.end_us) for row in SENT])
    assert length(COMPUTING) == pytest.approx(time.computing_us)
    assert length(spans) == pytest.approx(time.communication_us) == pytest.approx(163_535)
    assert length(common(spans, COMPUTING)) == pytest.approx(time.hidden_us) == pytest.approx(76_268)


def test_most_of_what_is_exposed_are_rows_and_their_gradients():
    exposed = [length(minus(union([(row.start_us, row.end_us)]), COMPUTING)) for row in SENT]
    rows, gradients = sum(exposed[0::10]), sum(exposed[6::10])
    assert (round(rows), round(gradients)) == (41_741, 18_539)
    assert rows + gradients > 0.6 * sum(exposed)


def test_the_same_exchange_takes_three_to_thirteen_milliseconds():
    took = [row.duration_us for row in SENT[0::10]]
    assert (min(took), max(took)) == (3088.0, 12_621.0)
