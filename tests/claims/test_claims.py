"""Claims on trial: each verdict comes from the run, and is the one that the numbers give."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from course_lib import claims
from course_lib.claims.court import timing_noise
from course_lib.claims.court.evidence import blocked, tries
from course_lib.claims.court.workloads import distance_text
from course_lib.claims.data_parallel import speed
from course_lib.cluster import Cluster
from course_lib.devices import machine
from course_lib.learn.exercises.lesson_13.misreadings import DOUBTED, TRUSTED

# What the runs have shown. A trial that decides otherwise has found something, or has broken.
VERDICTS = {
    "A1": "holds with conditions",
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
    "B4": "holds",
    "B5": "holds with conditions",
    "B6": "misleading",
    "C1": "holds",
    "C2": "holds with conditions",
    "C3": "holds with conditions",
    "C4": "false",
    "C5": "holds",
    "C6": "misleading",
    "C7": "false",
    "C8": "holds",
    "C9": "holds with conditions",
    "C10": "holds with conditions",
    "C11": "holds with conditions",
    "C12": "holds",
    "C13": "holds with conditions",
    "C14": "holds",
    "C15": "holds",
    "D1": "misleading",
    "D2": "misleading",
    "D3": "holds",
    "D4": "holds with conditions",
    "D5": "holds",
    "D6": "holds",
    "D7": "holds",
    "E1": "misleading",
    "E2": "false",
    "E3": "holds",
    "E4": "misleading",
    "E5": "holds with conditions",
    "E6": "holds",
    "E7": "misleading",
    "E8": "holds",
    "E9": "holds",
    "E10": "holds with conditions",
    "E11": "holds",
    "E12": "holds with conditions",
    "E13": "holds",
}
# Decided by clocks, which no test may rely on: their numbers are put in by hand below.
BY_CLOCK = {"A11", "B5", "C8", "D1", "E6", "E8"}
# The longest of those that no clock decides: the executed notebooks of lesson 13 hold their verdicts and all facts.
IN_A_LESSON = {"A12", "E12"}
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


def test_every_claim_has_a_trial_and_an_expected_verdict_here():
    names = {claim.name for claim in claims.CLAIMS}
    untried, unexpected = sorted(names - set(claims.trials())), sorted(names - set(VERDICTS))
    assert not untried, "these claims of the catalogue have no function with @tries"
    assert not unexpected, "these claims of the catalogue have no row in VERDICTS above"
    assert set(VERDICTS) <= names


@pytest.mark.parametrize(  # what a clock decides is held by the tests below, with numbers put in by hand
    "name",
    [pytest.param(name, marks=[pytest.mark.long] if name in BY_CLOCK | IN_A_LESSON else []) for name in ON_CPU],
)
def test_the_verdict_of_a_trial_on_this_machine(name, ranks, monkeypatch):
    monkeypatch.setattr(timing_noise, "ROUNDS", 1)
    evidence = claims.trial(name).run(ranks)
    if name in BY_CLOCK and evidence.is_blocked:
        assert "the machine is too busy" in evidence.because
        return
    assert evidence.verdict in (VERDICTS if name in BY_CLOCK else {name: VERDICTS[name]}).values(), str(evidence)
    assert bool(evidence.timings) >= (name in BY_CLOCK)
    assert evidence.facts
    assert evidence.because
    told = " ".join(str(evidence).split())
    assert evidence.because in told
    assert f"It would turn if {evidence.turns_if}." in told


@pytest.mark.first_cases(4)
@pytest.mark.parametrize("name", ["A2", "A5", "A7", "A10", "C6", "C10", "C14", "C15", "D2", "D3", "E5", "E12"])
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
    monkeypatch.setattr("course_lib.claims.court.evidence.machine", lambda: type("Machine", (), {"devices": ()})())
    evidence = claims.trial(name).run(ranks)
    assert evidence.is_blocked
    assert "needs" in evidence.because
    assert not evidence.facts


@pytest.mark.gpu
@pytest.mark.parametrize("name", ON_GPUS)
def test_the_verdict_of_a_trial_on_gpus(name):
    if len(machine().devices) < GPUS[claims.trial(name).claim.needs]:
        pytest.skip("needs more GPUs")
    evidence = claims.trial(name).run()
    if evidence.is_blocked:  # by this machine: a driver that tells no utilisation, GPUs without NVLink
        pytest.skip(evidence.because)
    assert evidence.verdict == VERDICTS[name]


@pytest.mark.parametrize(
    ("evidence", "outcome"),
    [
        (blocked("the driver does not report how busy a GPU is"), pytest.skip.Exception),
        (claims.Evidence("holds", {}, "so it was found", turns_if="it were not"), AssertionError),
    ],
)
def test_what_gpus_cannot_decide_is_skipped_and_another_verdict_is_not(evidence, outcome, monkeypatch):
    trial = SimpleNamespace(claim=claims.trial("E4").claim, run=lambda: evidence)
    monkeypatch.setattr(claims, "trial", lambda name: trial)
    monkeypatch.setitem(globals(), "machine", lambda: SimpleNamespace(devices=(None,)))
    with pytest.raises(outcome, match="busy a GPU is" if evidence.is_blocked else "holds"):
        test_the_verdict_of_a_trial_on_gpus("E4")


def test_bad_names_get_a_sentence(monkeypatch):
    with pytest.raises(ValueError, match=r"There is no claim 'C99'\. The nearest is 'C9'"):
        claims.trial("C99")
    monkeypatch.setattr(claims, "found_trials", dict)
    with pytest.raises(ValueError, match=r"The claim 'C5' has no trial yet: write a function with @tries\('C5'\)"):
        claims.trial("C5")
    with pytest.raises(ValueError, match=r"verdict='hold' is none of .*nearest is 'holds'"):
        claims.Evidence("hold", {}, "")
    with pytest.raises(ValueError, match=r"'holds' has turns_if='': name a condition under which"):
        claims.Evidence("holds", {"seen": 1}, "so it was found")
    with pytest.raises(ValueError, match="no trial yet"):
        tries("A8")


def test_a_misreading_stands_on_the_side_of_its_verdict():
    sides = {name: DOUBTED if verdict.startswith("holds") else TRUSTED for name, verdict in VERDICTS.items()}
    astray = [name for name, side in sides.items() if name not in side]
    assert not astray, "DOUBTED has a row for each claim that holds, TRUSTED for each that is misleading or false"


C = speed._COMPUTE_S


def exactly(seconds):
    return timing_noise.Bounds(seconds, seconds)


def steps_that_take(seconds):
    """In place of a measured step on two ranks: ``seconds(link)``, exactly."""
    return lambda cluster, link: exactly(seconds(link))


def by_theory(link):
    return C / 2 + 1e6 / link.bandwidth_bytes_per_s


def free(link):
    """As if messages cost nothing."""
    return C / 2


def always_slow(link):
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
    ],
)
def test_a_verdict_on_speed_follows_the_times(name, seconds, verdict, ranks, monkeypatch):
    monkeypatch.setattr(speed, "_step_time", steps_that_take(seconds))
    assert claims.trial(name).run(ranks).verdict == verdict


@pytest.mark.parametrize("name", ["A11", "D1"])
@pytest.mark.parametrize("link", [speed._FAST, speed._SLOW])
def test_a_step_that_may_be_faster_or_slower_decides_nothing(name, link, ranks, monkeypatch):
    open_one = timing_noise.Bounds(C / 2, 2 * C)
    monkeypatch.setattr(speed, "_step_time", lambda _, on: open_one if on is link else exactly(by_theory(on)))
    evidence = claims.trial(name).run(ranks)
    assert evidence.is_blocked
    assert "40 ms to 160 ms" in evidence.because


@pytest.mark.parametrize(
    ("replicas", "halves", "verdict"),
    [
        (timing_noise.Bounds(0.04, 0.05), timing_noise.Bounds(0.07, 0.1), "holds"),
        (timing_noise.Bounds(0.08, 0.1), timing_noise.Bounds(0.08, 0.09), "false"),
        (timing_noise.Bounds(0.04, 0.07), timing_noise.Bounds(0.08, 0.1), "cannot tell here"),
    ],
)
def test_replicas_and_halves_are_compared_by_their_bounds(replicas, halves, verdict, ranks, monkeypatch):
    monkeypatch.setattr(speed, "_step_time", lambda cluster, link: replicas)
    monkeypatch.setattr(speed, "_halves", lambda me: None)
    monkeypatch.setattr(timing_noise.Bounds, "of", lambda by_rank: halves)
    assert claims.trial("C8").run(ranks).verdict == verdict


@pytest.mark.parametrize(("small", "one", "verdict"), [(0.7, 0.0, "holds"), (0.2, 0.0, "false"), (0.7, 0.6, "false")])
def test_a_verdict_on_overlap_follows_what_was_hidden(small, one, verdict, ranks, monkeypatch):
    monkeypatch.setattr(timing_noise.ThresholdLine, "share", lambda _: 0.0)
    monkeypatch.setattr(speed, "_hidden_share", lambda _, in_one_bucket: one if in_one_bucket else small)
    assert claims.trial("E6").run(ranks).verdict == verdict


@pytest.mark.parametrize(("apart", "told"), [(0.0, "0 (rounding)"), (3e-16, "0 (rounding)"), (0.0123, "1.2e-02")])
def test_a_difference_that_is_rounding_alone_is_told_without_digits(apart, told):
    assert distance_text(apart) == told


def test_verdicts_stand_before_the_claims_in_lines_that_are_not_too_long():
    lines = claims.verdicts("C5", "C7").splitlines()
    assert lines[0].startswith("C5  holds                  Without a distributed sampler")
    assert any(line.startswith("C7  false                  With nn.DataParallel") for line in lines)
    assert max(map(len, lines)) <= 100
    with pytest.raises(ValueError, match="There is no claim 'Z9'"):
        claims.verdicts("C5", "Z9")
