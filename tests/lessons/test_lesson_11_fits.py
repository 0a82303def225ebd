"""The judge of 11.fits: what it refuses beside its named mistakes, and that these are right but for one thing."""

from __future__ import annotations

import pytest
from answers.lesson_11.wrong import fits as wrong_fits

from course_lib.learn.checks.checking import judged
from course_lib.learn.exercises.lesson_11.fits import CASES, FITS_EXERCISE, wrong_answers
from course_lib.plan.estimate.stage_memory import stage_bytes

_RIGHT = wrong_answers._Slip()  # the library's function may not be called


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_the_mistakes_are_right_but_for_one_thing(case):
    assert _RIGHT(*case.args) == pytest.approx(stage_bytes(*case.args), rel=1e-12)


def changed(name, factor):
    """The right answer, with one part multiplied by ``factor(job, layout, stage, each)``."""

    def answer(job, layout, stage, each):
        found = _RIGHT(job, layout, stage, each)
        return found | {name: found[name] * factor(job, layout, stage, each)}

    return answer


def without(name):
    def answer(job, layout, stage, each):
        return {part: size for part, size in _RIGHT(job, layout, stage, each).items() if part != name}

    return answer


def swapped(job, layout, stage, each):
    found = _RIGHT(job, layout, stage, each)
    return found | {"gradients": found["weights"], "weights": found["gradients"]}


def by_name(job, layout, stage, each):
    return {f"{name}_bytes": size for name, size in _RIGHT(job, layout, stage, each).items()}


def values_only(job, layout, stage, each):
    return list(_RIGHT(job, layout, stage, each).values())


def of_the_page(job, layout, stage, each):
    """Right for the first case alone."""
    return _RIGHT(*CASES[0].args)


def fullest_stage(job, layout, stage, each):
    return max((_RIGHT(job, layout, one, each) for one in range(layout.pp)), key=lambda found: sum(found.values()))


TIRED = {
    "tp twice": changed("weights", lambda job, layout, stage, each: 1 / layout.tp),
    "dp cuts logits": changed("logits", lambda job, layout, stage, each: 1 / layout.dp),
    "pp cuts logits": changed("logits", lambda job, layout, stage, each: 1 / layout.pp),
    "dp cuts activations": changed("activations", lambda job, layout, stage, each: 1 / layout.dp),
    "activations by hidden": changed("activations", lambda job, layout, stage, each: job.model.hidden),
    "micro-batch squared": changed("activations", lambda job, layout, stage, each: layout.micro_batch),
    "no optimizer": changed("optimizer", lambda job, layout, stage, each: 0),
    "sharding over all ranks": changed("optimizer", lambda job, layout, stage, each: 1 / layout.pp),
    "gradients in two bytes": changed("gradients", lambda job, layout, stage, each: 2 / each.gradient),
    "off by a thousandth": changed("weights", lambda job, layout, stage, each: 1.001),
    "logits missing": without("logits"),
    "swapped": swapped,
    "other names": by_name,
    "a list": values_only,
    "one case": of_the_page,
    "the fullest": fullest_stage,
}


@pytest.mark.first_cases(6)
@pytest.mark.parametrize("name", TIRED)
def test_a_wrong_answer_of_another_form_is_refused_without_a_name_that_is_not_its_own(name):
    verdict = judged(FITS_EXERCISE, TIRED[name])
    assert not verdict.passed
    assert verdict.mistake is None


SAID = [
    (lambda job, layout, stage, each: None, "nothing came back (`None`)"),
    (lambda job: 1.0, "TypeError"),
    (lambda job, layout, stage, each: dict.fromkeys(("weights", "gradients"), 0.0), "missing"),
]


@pytest.mark.parametrize(("answer", "said"), SAID)
def test_what_is_no_answer_is_said(answer, said):
    verdict = judged(FITS_EXERCISE, answer)
    assert not verdict.passed
    assert said in f"{verdict.message} {verdict.evidence}"


def test_the_library_is_to_be_written_and_not_called():
    verdict = judged(FITS_EXERCISE, wrong_fits.by_the_library)
    assert not verdict.passed
    assert "stage_bytes" in verdict.message
