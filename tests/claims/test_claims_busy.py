"""A clock on a crowded machine: what it shows for a claim counts, what it shows against it does not."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from course_lib import claims
from course_lib.claims.court import timing_noise
from course_lib.claims.data_parallel import speed
from course_lib.claims.models_and_machines import pipelines
from course_lib.cluster import Cluster

SHOWN, HIDDEN = {False: 0.7, True: 0.0}, {False: 0.2, True: 0.0}  # by whether there is one bucket


def in_line(monkeypatch, *shares):
    """Let ranks have stood in line for these shares, round by round; the last one lasts."""
    left = list(shares)
    monkeypatch.setattr(timing_noise.ThresholdLine, "share", lambda _: left.pop(0) if len(left) > 1 else left[0])


def hidden_in(monkeypatch, *rounds):
    left = [share for shares in rounds for share in (shares[False], shares[True])]
    monkeypatch.setattr(speed, "_hidden_share", lambda _cluster, _in_one_bucket: left.pop(0))


def test_on_a_quiet_machine_what_speaks_against_a_claim_makes_it_false(cluster2, monkeypatch):
    in_line(monkeypatch, 0.0)
    hidden_in(monkeypatch, *[HIDDEN] * 4)
    assert claims.trial("E6").run(lambda size: cluster2).verdict == "false"


def test_on_a_crowded_machine_it_decides_nothing(cluster2, monkeypatch):
    in_line(monkeypatch, 0.4, 0.2, 0.3, 0.5)
    hidden_in(monkeypatch, *[HIDDEN] * 4)
    evidence = claims.trial("E6").run(lambda size: cluster2)
    assert evidence.is_blocked
    assert "a rank stood in line for a core for 20% of the time" in evidence.because


@pytest.mark.parametrize(
    ("shares", "verdict", "rounds_run"),
    [((0.0,), "holds", 1), ((0.3, 0.0), "holds", 2), ((0.3, 0.2, 0.4), "cannot tell here", 3)],
)
def test_a_clock_decides_in_the_first_quiet_round(shares, verdict, rounds_run, cluster2, monkeypatch):
    in_line(monkeypatch, *shares)
    runs = []

    @timing_noise.in_quiet
    def trial(ranks):
        runs.append(ranks(2))
        return claims.Evidence("holds", {"seen": 1}, "so it was found", turns_if="it were otherwise")

    evidence = trial(lambda size: cluster2)
    assert (evidence.verdict, len(runs)) == (verdict, rounds_run)
    assert not evidence.is_blocked or "in line for a core for 20% of the time" in evidence.because


def test_every_step_gives_both_bounds_and_the_closest_count():
    quiet, crowded, late = timing_noise.Timed(0.05, 0.0), timing_noise.Timed(0.08, 0.02), timing_noise.Timed(0.06, 0.03)
    span = timing_noise.Bounds.of([[quiet, crowded], [late, quiet]])
    # 0.06 at most, 0.08 - 0.02.
    assert (span.least_s, span.most_s) == (pytest.approx(0.06), pytest.approx(0.06))
    span = timing_noise.Bounds.of([[quiet], [late]])
    assert (span.least_s, span.most_s) == (pytest.approx(0.03), 0.06)
    assert span.below(0.07) is True
    assert span.below(0.03) is False
    assert span.below(0.05) is None
    assert span.below(timing_noise.Bounds(0.05, 0.08)) is None
    assert span.times(2) == timing_noise.Bounds(2 * span.least_s, 0.12)


def test_ranks_that_stood_in_line_at_once_do_not_make_a_step_shorter_than_nothing(cluster2, monkeypatch):
    crowded = timing_noise.Timed(0.2, 0.15)
    span = timing_noise.Bounds.of([[crowded], [crowded]])
    assert span == timing_noise.Bounds(0.0, 0.2)
    monkeypatch.setattr(speed, "_step_time", lambda cluster, link: span)
    evidence = claims.trial("A11").run(lambda size: cluster2)
    assert "would have taken at most 200 ms, and at most 200 ms, which decides nothing" in evidence.because


def test_a_step_is_timed_from_when_all_are_ready_and_its_line_from_before(monkeypatch):
    lines = iter([{(1, 1): (0.0, 1.0)}, {(1, 1): (0.0, 1.25), (1, 2): (0.0, 0.5)}])
    moments_s = iter([10.0, 13.0])
    done = []
    monkeypatch.setattr(timing_noise, "read_threads", lambda pids: next(lines))
    monkeypatch.setattr(timing_noise.time, "perf_counter", lambda: next(moments_s))
    timed = timing_noise.Timed.of(None, lambda: done.append("ready"), lambda: done.append("step"))
    assert done == ["ready", "step"]
    assert (timed.seen_s, timed.in_line_s) == (3.0, 0.75)


def test_one_round_that_shows_it_is_enough(cluster2, monkeypatch):
    in_line(monkeypatch, 0.4)
    hidden_in(monkeypatch, HIDDEN, HIDDEN, SHOWN)
    evidence = claims.trial("E6").run(lambda size: cluster2)
    assert evidence.verdict == "holds"
    assert evidence.timings["hidden, small buckets"] == "70%"


def test_of_rounds_that_do_not_show_it_the_quietest_decides(cluster2, monkeypatch):
    in_line(monkeypatch, 0.4, 0.01, 0.4)
    hidden_in(monkeypatch, HIDDEN, {False: 0.3, True: 0.1}, HIDDEN, HIDDEN)
    evidence = claims.trial("E6").run(lambda size: cluster2)
    assert (evidence.verdict, evidence.timings["hidden, small buckets"]) == ("false", "30%")


@pytest.mark.parametrize(("share", "verdict"), [(0.0, "false"), (0.3, "cannot tell here")])
def test_a_pipeline_whose_idle_time_does_not_fall(share, verdict, cluster4, monkeypatch):
    in_line(monkeypatch, share)
    monkeypatch.setattr(pipelines, "_idle_shares", lambda cluster, slower: {1: 0.75, 4: 0.7, 16: 0.7})
    assert claims.trial("E8").run(lambda size: cluster4).verdict == verdict


def test_a_share_is_of_the_time_that_passed_and_of_the_rank_that_waited_longest(monkeypatch):
    lines = iter(
        [
            {(1, 1): (0.0, 1.0), (2, 2): (0.0, 3.0)},
            {(1, 1): (0.0, 1.5), (2, 2): (0.0, 3.25), (2, 3): (9.0, 0.75)},
        ]
    )
    moments_s = iter([10.0, 14.0])
    monkeypatch.setattr(timing_noise, "read_threads", lambda pids: next(lines))
    monkeypatch.setattr(timing_noise.time, "monotonic", lambda: next(moments_s))
    line = timing_noise.ThresholdLine(SimpleNamespace(call=lambda *_, **__: [1, 2]))
    assert line.share() == (0.25 + 0.75) / 4.0, "of rank 2, by both of its threads"


@pytest.mark.skipif(
    not os.path.exists("/proc/self/schedstat"), reason="this system does not say how long a thread waited"
)
def test_a_line_is_seen_where_there_is_one():
    def works(me, core, own_s):
        os.sched_setaffinity(0, [core])
        began_s = time.thread_time()
        while time.thread_time() < began_s + own_s:
            pass

    core = min(os.sched_getaffinity(0))
    loop = f"import os; os.sched_setaffinity(0, [{core}])\nwhile True: pass"
    with Cluster(1, backend="gloo") as cluster:
        cluster.run(works, core, 0.0)
        strangers = [subprocess.Popen([sys.executable, "-c", loop]) for _ in range(3)]
        try:
            line = timing_noise.ThresholdLine(cluster)
            cluster.run(works, core, 0.3)
            assert line.share() > 0.2, "a quarter of the core is left to it"
        finally:
            for stranger in strangers:
                stranger.kill()
                stranger.wait()
