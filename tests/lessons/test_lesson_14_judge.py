"""The judge of lesson 14: what it says of results that nobody has run, and how it meets a busy machine."""

from __future__ import annotations

from dataclasses import replace

import pytest
from answers.lesson_14.right.runs import by_the_course
from capstone_results import JOB, RESULT, cheated, made, over_memory

import course_lib.capstone
from course_lib.capstone.attempts import attempt_cache
from course_lib.capstone.jobs.result import Fault
from course_lib.layouts.mesh import Mesh
from course_lib.learn.checks.checking import judged
from course_lib.learn.exercises.lesson_14 import EXERCISES, slips
from course_lib.learn.exercises.lesson_14.one import ONE

VALUES = RESULT.values
SLIPS = {"kept": (4.2, 4.3), "no update": (4.2, 4.2), "part": (4.0, 3.9), "summed": (4.2, 3.5)}


def answer(me, task):
    return (me, task)


@pytest.fixture
def runs(monkeypatch):
    """What attempts come to, one after the other, in place of real ones."""
    results = []
    monkeypatch.setattr(attempt_cache, "_last", {})
    monkeypatch.setattr(course_lib.capstone, "job_for", lambda level, seed: JOB, raising=False)
    monkeypatch.setattr(course_lib.capstone, "attempt", lambda *_, **__: results.pop(0), raising=False)
    monkeypatch.setattr("course_lib.cluster.shared_cluster", lambda number: None)
    known = "course_lib.learn.exercises.lesson_14.mistakes.losses_of"
    monkeypatch.setattr(known, lambda level, seed, slip, number: (SLIPS.get(slip, (1.0, 1.0)),))
    return results


def wrong(losses=(4.2, 4.1), share=0.5):
    return replace(VALUES, largest_difference=share * VALUES.moved, losses=losses)


def ended(sentence):
    return made(ended=sentence, memory=(), values=None, steps_s=())


TOLD = {
    "does-not-fit": over_memory(),
    "returns-nothing": ended("AttributeError: 'NoneType' object has no attribute 'step'"),
    "no-loss": ended("TypeError: float() argument must be a string or a real number, not 'NoneType'"),
    "no-state": ended("ValueError: whole_state() gave a NoneType on rank 0"),
    "own-part-of-the-state": made(faults=(Fault("smaller model", "head.w is missing."),), values=None),
    "no-update": made(values=wrong(SLIPS["no update"])),
    "gradients-kept": made(values=wrong(SLIPS["kept"])),
    "another-optimizer": made(values=wrong((1.0, 1.0))),
    "part-of-the-batch": made(values=wrong(SLIPS["part"])),
    "gradients-summed": made(values=wrong(SLIPS["summed"])),
    "another-loss": made(values=replace(VALUES, losses=(8.4, 8.2))),
    "breaks-a-rule": cheated(),
}


def test_each_rank_has_to_tell_the_loss_of_the_whole_batch(runs):
    values = replace(VALUES, told_by_ranks=(VALUES.losses, VALUES.losses, (4.2, 0.0)))
    runs.append(made(values=values))
    verdict = judged(ONE, answer)
    assert (verdict.status, verdict.mistake) == ("not yet", "another-loss")
    assert "the loss of step 2 is 4.1 on rank 0 and 0 on rank 2" in verdict.evidence
    runs.append(made(values=replace(VALUES, told_by_ranks=(VALUES.losses,) * 4)))
    assert judged(ONE, answer).passed


@pytest.mark.parametrize("name", TOLD)
def test_a_result_is_told_by_name(runs, name):
    runs.append(TOLD[name])
    verdict = judged(ONE, answer)
    assert (verdict.status, verdict.mistake) == ("not yet", name), verdict


def test_half_of_the_batch_is_told_as_that(runs):
    runs.append(made(faults=(Fault("smaller batch", "8 of 16 sequences went through the layers."),)))
    assert judged(ONE, answer).mistake == "part-of-the-batch"


def test_several_broken_rules_make_a_sentence_each(runs):
    runs.append(made(faults=(Fault("hidden memory", "rank 0 holds it."), Fault("no waiting", "nobody waits."))))
    assert "hidden memory: rank 0 holds it; no waiting: nobody waits." in judged(ONE, answer).evidence


def test_a_block_that_nobody_has_computed_is_no_matter_of_shapes(runs):
    skipped = Fault("smaller model", "blocks.1 was computed on no rank.")
    runs.append(made(faults=(skipped,), values=wrong()))
    verdict = judged(ONE, answer)
    assert verdict.mistake == "breaks-a-rule"
    assert "blocks.1 was computed on no rank" in verdict.evidence


def test_all_right(runs):
    runs.append(RESULT)
    verdict = judged(ONE, answer)
    assert verdict.passed
    assert verdict.message == ONE.passed


def late(paced_s, step_s=0.2):
    return made(paced_s=paced_s, steps_s=(step_s, step_s + 0.1))


def test_late_is_what_computing_and_messages_take(runs):
    runs.append(late(0.31))
    verdict = judged(ONE, answer)
    assert verdict.mistake == "late"
    assert "a step takes 310 ms of computing and messages, and the budget is 300 ms" in verdict.evidence
    assert runs == []


@pytest.mark.parametrize("step_s", [0.31, 3.0, 300.0])
def test_no_busy_machine_makes_an_answer_late(runs, step_s):
    runs.append(late(0.299, step_s))
    assert judged(ONE, answer).passed


def test_where_only_the_clock_can_tell_the_quickest_of_three_counts(runs):
    runs += [late(None, 0.41), late(None, 0.5), late(None, 0.4)]
    verdict = judged(ONE, answer)
    assert verdict.mistake == "late"
    assert "a step takes 400 ms by the clock, and the budget is 300 ms" in verdict.evidence
    runs += [late(None, 0.41), late(None, 0.29)]
    assert judged(ONE, answer).passed
    assert runs == []


def test_what_the_page_has_just_run_is_not_run_again(runs):
    attempt_cache.keep(answer, RESULT)
    assert judged(ONE, answer).passed  # and nothing has run
    assert attempt_cache.right_before(JOB, lambda me, task: 3) is None
    attempt_cache.keep(answer, over_memory())
    runs.append(cheated())
    assert judged(ONE, answer).mistake == "breaks-a-rule"
    attempt_cache.keep(answer, late(0.2, 9.0))
    assert judged(ONE, answer).passed
    attempt_cache.keep(answer, late(9.0))
    assert judged(ONE, answer).mistake == "late"
    assert runs == []


def test_an_answer_that_refers_to_another_mesh_is_another_answer():
    """As in a notebook, where a class is written once, and the mesh that it names is changed."""
    page = {"__name__": "__main__", "MESH": Mesh.of(pp=4)}
    exec("class Training:\n    def __init__(self, me, task):\n        self.mesh = MESH", page)
    attempt_cache.keep(page["Training"], RESULT)
    assert attempt_cache.right_before(JOB, page["Training"]) is RESULT
    page["MESH"] = Mesh.of(tp=4)
    assert attempt_cache.right_before(JOB, page["Training"]) is None
    attempt_cache.keep(page["Training"], cheated())
    assert attempt_cache.right_before(JOB, page["Training"]) is None


def test_what_nobody_knows_by_name_is_told_as_it_was(runs):
    runs.append(made(values=wrong((4.2, 4.05))))
    verdict = judged(ONE, answer)
    assert verdict.mistake is None
    assert "blocks.0.mlp.w_up.weight is off by 5.0e-01 of what training moves" in verdict.message


@pytest.mark.parametrize("difference", [float("nan"), float("inf")])
def test_no_numbers_are_no_weights(runs, difference):
    runs.append(made(values=replace(VALUES, largest_difference=difference)))
    assert not judged(ONE, answer).passed


def test_losses_that_are_no_numbers(runs):
    runs.append(made(values=replace(VALUES, losses=(float("nan"), 4.1))))
    verdict = judged(ONE, answer)
    assert not verdict.passed
    assert "the loss of step 1 is nan" in f"{verdict.evidence} {verdict.message}"


def test_another_end_is_told_in_its_words(runs):
    runs.append(ended("rank 1 of 4 failed: ValueError: no such axis."))
    verdict = judged(ONE, answer)
    assert verdict.mistake is None
    assert "rank 1 of 4 failed: ValueError: no such axis." in verdict.message


def test_a_stub_that_ran_is_no_attempt(runs):
    runs.append(ended("not attempted: a stub is left."))
    assert judged(ONE, answer).status == "not attempted"


def test_the_courses_own_is_not_an_answer(runs):
    from course_lib.capstone.running.on_mesh import assemble_on
    from course_lib.layouts.mesh import Mesh

    verdict = judged(ONE, assemble_on(Mesh.of(dp_shard=4)))
    assert verdict.status == "not yet"
    assert "the course's own" in verdict.message
    assert judged(ONE, by_the_course).status == "forbidden"
    assert judged(ONE, 3).status == "not yet"


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda one: one.name)
def test_each_slip_has_losses_of_its_own(exercise):
    """So that no mistake is taken for another: in the jobs of the page, after some steps."""
    level = exercise.judge.level
    forms = {
        (slip, place): losses for slip in slips.SLIPS for place, losses in enumerate(slips.losses_of(level, 7, slip, 3))
    }
    found = list(forms.values())
    for place, one in enumerate(found):
        for other in found[place + 1 :]:
            assert max(abs(a - b) / b for a, b in zip(one, other, strict=True)) > 2e-3
