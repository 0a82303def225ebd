"""Claims on trial: each verdict comes from the run, and is the one that the numbers give."""

from __future__ import annotations

import pytest

from course_lib import claims
from course_lib.claims import busy, speed, threads
from course_lib.claims.evidence import tries
from course_lib.cluster import Cluster
from course_lib.devices import machine
from course_lib.parallel.data.thread_race import Race

# What the runs have shown. A trial that decides otherwise has found something, or has broken.
VERDICTS = {
    "A1": "holds",
    "A2": "holds with conditions",
    "A3": "misleading",
    "A4": "false",
    "A5": "false",
    "A6": "false",
    "A7": "false",
    "A8": "holds",
    "A9": "false",
    "A10": "false",
    "A11": "holds",
    "A12": "holds",
    "B1": "holds",
    "B2": "misleading",
    "B3": "misleading",
    "B4": "holds with conditions",
    "B5": "holds with conditions",
    "B6": "misleading",
    "C1": "holds",
    "C2": "holds with conditions",
    "C3": "holds",
    "C4": "false",
    "C5": "holds",
    "C6": "misleading",
    "C7": "false",
    "C8": "holds",
    "C9": "holds with conditions",
    "C10": "holds with conditions",
    "C12": "holds",
    "C13": "holds with conditions",
    "C14": "holds",
    "D1": "misleading",
    "D2": "misleading",
    "D3": "holds",
    "D4": "holds with conditions",
    "D5": "holds",
    "D6": "holds",
    "D7": "holds",
    "E1": "misleading",
    "E2": "false",
    "E5": "holds with conditions",
    "E6": "holds",
    "E7": "misleading",
    "E8": "holds",
    "E9": "holds",
    "E10": "holds with conditions",
    "E11": "holds",
    "E13": "holds",
}
# Decided by clocks, which no test may rely on: their numbers are put in by hand below.
BY_CLOCK = {"A11", "B2", "B5", "C2", "C3", "C8", "C12", "D1", "D7", "E6", "E8"}
GPUS = {"cpu": 0, "gpu1": 1, "gpus": 2}


ON_CPU = [name for name in VERDICTS if claims.trial(name).claim.needs == "cpu"]
ON_GPUS = [name for name in VERDICTS if name not in ON_CPU]


@pytest.fixture(scope="session")
def cluster1():
    with Cluster(1) as cluster:
        yield cluster


@pytest.fixture
def ranks(cluster1, cluster2, cluster4):
    return {1: cluster1, 2: cluster2, 4: cluster4}.__getitem__


def test_every_trial_has_an_expected_verdict_here():
    assert set(claims.trials()) == set(VERDICTS)


@pytest.mark.parametrize(  # what a clock decides is held by the tests below, with numbers put in by hand
    "name", [pytest.param(name, marks=[pytest.mark.long] if name in BY_CLOCK else []) for name in ON_CPU]
)
def test_the_verdict_of_a_trial_on_this_machine(name, ranks, monkeypatch):
    monkeypatch.setattr(busy, "ROUNDS", 1)
    evidence = claims.trial(name).run(ranks)
    if name in BY_CLOCK and evidence.is_blocked:
        assert "the machine is too busy" in evidence.because
        return
    assert evidence.verdict in (VERDICTS if name in BY_CLOCK else {name: VERDICTS[name]}).values(), str(
        evidence
    )
    assert bool(evidence.timings) >= (name in BY_CLOCK)
    assert evidence.facts
    assert evidence.because
    assert evidence.because in " ".join(str(evidence).split())


@pytest.mark.parametrize("name", ["A2", "A5", "A7", "A10", "C6", "C10", "C14", "D2", "D3", "E5"])
def test_facts_are_the_same_in_every_run(name, ranks):
    assert claims.trial(name).run(ranks) == claims.trial(name).run(ranks)


def test_sharding_is_no_replica_and_no_cut_of_the_arithmetic(ranks):
    facts = claims.trial("E1").run(ranks).facts
    for way, expected in {
        "data parallelism": "all weights, part of samples, all arithmetic of a sample, all layers",
        "model parallelism": "part of weights, all samples, part of arithmetic of a sample, part of layers",
        "tensor parallelism": "part of weights, all samples, part of arithmetic of a sample, all layers",
        "sharded data parallelism": "part of weights, part of samples, all arithmetic of a sample, all layers",
    }.items():
        assert facts[way] == expected
    assert claims.trial("D2").run(ranks).facts["states on 4 ranks that shard (ZeRO-3), share"] == "0.25"


@pytest.mark.parametrize("name", ON_GPUS)
def test_a_trial_that_needs_gpus_is_blocked_without_them(name, monkeypatch, ranks):
    monkeypatch.setattr("course_lib.claims.evidence.machine", lambda: type("Machine", (), {"devices": ()})())
    evidence = claims.trial(name).run(ranks)
    assert evidence.is_blocked
    assert "needs" in evidence.because
    assert not evidence.facts


@pytest.mark.gpu
@pytest.mark.parametrize("name", ON_GPUS)
def test_the_verdict_of_a_trial_on_gpus(name):
    if len(machine().devices) < GPUS[claims.trial(name).claim.needs]:
        pytest.skip("needs more GPUs")
    assert claims.trial(name).run().verdict == VERDICTS[name]


def test_bad_names_get_a_sentence():
    with pytest.raises(ValueError, match=r"There is no claim 'C99'.*nearest with a trial"):
        claims.trial("C99")
    with pytest.raises(ValueError, match=r"'E1' has no trial yet|no claim 'E1x'"):
        claims.trial("E1x")
    with pytest.raises(ValueError, match=r"verdict='hold' is none of .*nearest is 'holds'"):
        claims.Evidence("hold", {}, "")
    with pytest.raises(ValueError, match="no trial yet"):
        tries("A8")


def test_the_catalogue_has_every_claim_once():
    names = [claim.name for claim in claims.CLAIMS]
    assert len(set(names)) == len(names) == 52
    assert all(claim.article and claim.text.endswith(".") and claim.needs in GPUS for claim in claims.CLAIMS)
    by_letter = {claim.name for claim in claims.CLAIMS if claim.article == claims.ARTICLES[claim.name[0]]}
    assert {claim.name for claim in claims.CLAIMS} - by_letter == {"E6"}  # no article of the five says it


@pytest.fixture
def quiet(monkeypatch):
    monkeypatch.setattr(busy.Line, "share", lambda _: 0.0)


def steps_that_take(seconds):
    """In place of a measured step: ``seconds(number of ranks, link, compute_s, weak)``."""

    def step_time_s(cluster, link, *, compute_s, weak=False):
        return seconds(cluster.world_size, link, compute_s, weak)

    return step_time_s


def by_theory(n, link, compute_s, weak):
    communication_s = 2 * link.latency_s + 1e6 / link.bandwidth_bytes_per_s
    return (compute_s if weak else compute_s / n) + communication_s


def free(n, link, compute_s, weak):
    """As if messages cost nothing."""
    return compute_s if weak else compute_s / n


def always_slow(n, link, compute_s, weak):
    return 10.0


@pytest.mark.parametrize(
    ("name", "seconds", "verdict"),
    [
        ("A11", by_theory, "holds"),
        ("A11", free, "false"),
        ("A11", always_slow, "false"),
        ("D1", by_theory, "misleading"),
        ("D1", free, "false"),
        ("D1", always_slow, "holds"),
        ("C3", by_theory, "holds"),
        ("C3", free, "false"),
        ("C12", by_theory, "holds"),
        ("C12", free, "false"),
        ("C12", always_slow, "false"),
        ("C8", free, "holds"),
        ("C8", always_slow, "false"),
    ],
)
def test_a_verdict_on_speed_follows_the_times(name, seconds, verdict, ranks, monkeypatch, quiet):
    monkeypatch.setattr(speed, "_step_time_s", steps_that_take(seconds))
    assert claims.trial(name).run(ranks).verdict == verdict


@pytest.mark.parametrize("name", ["C2", "D7"])
@pytest.mark.parametrize(("threads_s", "verdict"), [(2.0, "holds"), (0.5, "false")])
def test_a_verdict_on_threads_follows_the_race(name, threads_s, verdict, ranks, monkeypatch):
    race = Race(2, one_s=(2.0,), threads_s=(threads_s,), processes_s=(1.0,))
    monkeypatch.setattr(threads, "threads_or_processes", lambda *_, **__: race)
    assert claims.trial(name).run(ranks).verdict == verdict


@pytest.mark.parametrize("name", ["C2", "D7"])
def test_without_two_free_cores_threads_and_processes_are_not_compared(name, ranks, monkeypatch):
    race = Race(2, one_s=(2.0,), threads_s=(2.2,), processes_s=(1.9,))
    monkeypatch.setattr(threads, "threads_or_processes", lambda *_, **__: race)
    evidence = claims.trial(name).run(ranks)
    assert evidence.is_blocked
    assert "no two free cores" in evidence.because


def test_processes_that_win_with_small_layers_alone_win_with_conditions(ranks, monkeypatch):
    races = {  # two threads are as fast as one worker, and then as fast as two processes
        threads._many_small_layers: Race(2, one_s=(2.0,), threads_s=(2.0,), processes_s=(1.0,)),
        threads._few_large_layers: Race(2, one_s=(2.0,), threads_s=(1.0,), processes_s=(1.0,)),
    }
    monkeypatch.setattr(threads, "threads_or_processes", lambda _, build, **__: races[build])
    assert claims.trial("C2").run(ranks).verdict == "holds with conditions"


@pytest.mark.parametrize(
    ("small", "one", "verdict"), [(0.7, 0.0, "holds"), (0.2, 0.0, "false"), (0.7, 0.6, "false")]
)
def test_a_verdict_on_overlap_follows_what_was_hidden(small, one, verdict, ranks, monkeypatch):
    monkeypatch.setattr(busy.Line, "share", lambda _: 0.0)
    monkeypatch.setattr(speed, "_hidden_share", lambda _, in_one_bucket: one if in_one_bucket else small)
    assert claims.trial("E6").run(ranks).verdict == verdict


def test_verdicts_stand_before_the_claims_in_lines_that_are_not_too_long():
    lines = claims.verdicts("C5", "C7").splitlines()
    assert lines[0].startswith("C5  holds                  Without a distributed sampler")
    assert any(line.startswith("C7  false                  With nn.DataParallel") for line in lines)
    assert max(map(len, lines)) <= 100
    with pytest.raises(ValueError, match="There is no claim 'Z9'"):
        claims.verdicts("C5", "Z9")
