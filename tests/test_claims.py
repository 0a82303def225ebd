"""Claims on trial: each verdict comes from the run, and is the one that the numbers give."""

from __future__ import annotations

import pytest

from course_lib import claims
from course_lib.claims.trial import tries
from course_lib.devices import machine

# What the runs have shown. A trial that decides otherwise has found something, or has broken.
VERDICTS = {
    "A8": "holds",
    "C5": "holds",
    "C6": "false",
    "E5": "false",
}  # fmt: skip
GPUS = {"cpu": 0, "gpu1": 1, "gpus": 2}


@pytest.fixture
def ranks(cluster2, cluster4):
    return {2: cluster2, 4: cluster4}.__getitem__


def test_every_trial_has_an_expected_verdict_here():
    assert set(claims.trials()) == set(VERDICTS)


@pytest.mark.parametrize("name", [name for name in VERDICTS if claims.trial(name).claim.needs == "cpu"])
def test_the_verdict_of_a_trial_on_this_machine(name, ranks):
    evidence = claims.trial(name).run(ranks)
    assert evidence.verdict == VERDICTS[name], str(evidence)
    assert evidence.facts
    assert evidence.because
    assert evidence.because in str(evidence)


@pytest.mark.parametrize("name", ["A8", "C6", "E5"])
def test_facts_are_the_same_in_every_run(name, ranks):
    assert claims.trial(name).run(ranks) == claims.trial(name).run(ranks)


@pytest.mark.parametrize("name", [name for name in VERDICTS if claims.trial(name).claim.needs != "cpu"])
def test_a_trial_that_needs_gpus_is_blocked_without_them(name, monkeypatch, ranks):
    monkeypatch.setattr("course_lib.claims.trial.machine", lambda: type("Machine", (), {"devices": ()})())
    evidence = claims.trial(name).run(ranks)
    assert evidence.is_blocked
    assert "needs" in evidence.because
    assert not evidence.facts


@pytest.mark.gpu
@pytest.mark.parametrize("name", [name for name in VERDICTS if claims.trial(name).claim.needs != "cpu"])
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
