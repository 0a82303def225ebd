"""Claims about pipelines that a clock decides: the verdict follows the times, whatever machine this is."""

from __future__ import annotations

import pytest

from course_lib import claims, schedules
from course_lib.claims.court import timing_noise
from course_lib.claims.models_and_machines import pipelines
from course_lib.cost import simulate


def by_theory(cluster, schedule, times=pipelines._EQUAL):
    """In place of a measured step: the simulator's."""
    return simulate(schedule, times)


def never_faster(cluster, schedule, times=pipelines._EQUAL):
    """As if micro-batches went one after the other."""
    return simulate(schedules.naive(4, schedule.num_micro_batches), times)


def stalls(cluster, schedule, times=pipelines._EQUAL):
    """As if nothing were won beyond four micro-batches."""
    return simulate(schedules.gpipe(4, min(4, schedule.num_micro_batches)), times)


@pytest.mark.parametrize(
    ("name", "step", "verdict"),
    [
        ("B5", by_theory, "holds with conditions"),
        ("B5", never_faster, "false"),
        ("E8", by_theory, "holds"),
        ("E8", never_faster, "false"),
        ("E8", stalls, "false"),
    ],
)
def test_a_verdict_follows_the_times(name, step, verdict, cluster4, monkeypatch):
    monkeypatch.setattr(timing_noise.ThresholdLine, "share", lambda _: 0.0)
    monkeypatch.setattr(pipelines, "_step", step)
    evidence = claims.trial(name).run(lambda size: cluster4)
    assert evidence.verdict == verdict, str(evidence)
    assert evidence.timings


def test_theory_finds_the_numbers_of_the_formula(cluster4, monkeypatch):
    monkeypatch.setattr(timing_noise.ThresholdLine, "share", lambda _: 0.0)
    monkeypatch.setattr(pipelines, "_step", by_theory)
    at_work = claims.trial("B5").run(lambda size: cluster4)
    assert at_work.timings["busy, one batch"] == at_work.facts["busy by formula, one batch"] == "25%"
    assert at_work.timings["busy, 8 micro-batches"] == at_work.facts["busy by formula, 8 micro-batches"] == "73%"
    idle = claims.trial("E8").run(lambda size: cluster4)
    assert ", ".join(idle.timings.values()) == idle.facts["idle by formula, 1, 4 and 16 micro-batches"]
