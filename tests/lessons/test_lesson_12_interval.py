"""The judge of 12.interval: what it refuses, in whose words, and what it lets pass."""

from __future__ import annotations

import math

import numpy as np
import pytest
from answers.lesson_12.right.intervals import ANSWERS
from answers.lesson_12.right.intervals import by_bisection as right
from answers.lesson_12.wrong.interval import by_the_library

from course_lib.cost import FailingJob
from course_lib.learn.checks.checking import judged
from course_lib.learn.exercises.lesson_12.interval import CASES, INTERVAL, best_of
from course_lib.learn.exercises.lesson_12.interval.wrong_answers import MISTAKES


@pytest.mark.first_cases(3)
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_each_mistake_gets_its_own_message(mistake):
    verdict = judged(INTERVAL, mistake.example)
    assert not verdict.passed
    assert (verdict.mistake, verdict.message) == (mistake.name, mistake.message)


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.__name__)
def test_right_answers_of_other_styles_pass(answer):
    assert judged(INTERVAL, answer).passed


def left(t, mean_s, checkpoint_s, restart_s):
    return t / mean_s * math.exp(-restart_s / mean_s) / math.expm1((t + checkpoint_s) / mean_s)


def found(gpus, rate, checkpoint_s, restart_s, *, of=lambda t, *_: t, share=left):
    """Right, but for the interval that ``of`` makes of it, or for the ``share``."""
    if not rate:
        return math.inf, 1.0
    mean_s = 86_400 / gpus / rate
    t = of(right(gpus, rate, checkpoint_s, restart_s)[0], mean_s, checkpoint_s, restart_s)
    return t, share(t, mean_s, checkpoint_s, restart_s)


def slip(name, **how):
    def answer(*job):
        return found(*job, **how)

    answer.__name__ = name
    return answer


def interval_alone(*job):
    return right(*job)[0]


def a_dictionary(*job):
    return dict(zip(("interval", "goodput"), right(*job), strict=True))


def three_numbers(*job):
    return (*right(*job), 1)


def in_minutes(*job):
    seconds, share = right(*job)
    return seconds / 60, share


def rounded_to_minutes(*job):
    seconds, share = right(*job)
    return (seconds if math.isinf(seconds) else 60 * max(1, round(seconds / 60))), share


def goodput_to_two_digits(*job):
    seconds, share = right(*job)
    return seconds, round(share, 2)


def zero_for_hopeless(*job):
    seconds, share = right(*job)
    return seconds, share if share > 0.01 else 0.0


def a_grid_of_an_hour(gpus, rate, checkpoint_s, restart_s):
    """Looks no further than an hour."""
    if not rate:
        return math.inf, 1.0
    mean_s = 86_400 / gpus / rate
    return max(((t, left(t, mean_s, checkpoint_s, restart_s)) for t in range(1, 3601, 7)), key=lambda pair: pair[1])


def on_the_page(*job):
    return 1116.3, 0.8758


def per_node(gpus, rate, checkpoint_s, restart_s):
    return right(max(gpus // 8, 1), rate, checkpoint_s, restart_s)


TIRED = (
    interval_alone,
    a_dictionary,
    three_numbers,
    in_minutes,
    rounded_to_minutes,
    goodput_to_two_digits,
    zero_for_hopeless,
    a_grid_of_an_hour,
    on_the_page,
    per_node,
    slip("twice", of=lambda t, *_: 2 * t),
    slip("half", of=lambda t, *_: t / 2),
    slip("a_fiftieth_too_long", of=lambda t, *_: 1.02 * t),
    slip("young_less_the_write", of=lambda t, m, c, r: max(math.sqrt(2 * c * m) - c, c)),
    slip("mean_and_restart", of=lambda t, m, c, r: math.sqrt(2 * c * (m + r))),
    slip("restart_twice", share=lambda t, m, c, r: left(t, m, c, 2 * r)),
    slip("restart_in_the_exponent", share=lambda t, m, c, r: t / m / math.expm1((t + c + r) / m)),
    slip("no_failure_in_an_interval", share=lambda t, m, c, r: math.exp(-(t + c) / m) * t / (t + c)),
    slip("no_writing", share=lambda t, m, c, r: left(t, m, 0.0, r)),
    slip("availability", share=lambda t, m, c, r: m / (m + r + c + t / 2)),
)


@pytest.mark.parametrize("answer", TIRED, ids=lambda answer: answer.__name__)
def test_a_wrong_answer_of_another_form_is_refused_without_a_name_that_is_not_its_own(answer):
    verdict = judged(INTERVAL, answer)
    assert not verdict.passed
    assert verdict.mistake is None


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda *job: None, "nothing came back"),
        (lambda gpus, rate: 0, "TypeError"),
        (interval_alone, "expected 2 items"),
        (three_numbers, "got 3"),
        (lambda *job: ("soon", 1.0), "the interval: expected the number"),
        (rounded_to_minutes, "the interval: expected"),
        (goodput_to_two_digits, "the goodput: expected"),
    ],
)
def test_what_is_wrong_is_said(answer, said):
    verdict = judged(INTERVAL, answer)
    assert not verdict.passed
    assert said in f"{verdict.message} {verdict.evidence}"


def test_the_library_is_no_answer():
    verdict = judged(INTERVAL, by_the_library)
    assert verdict.status == "forbidden"
    assert "best_interval_s" in verdict.message


def test_the_job_of_the_library_is_no_answer_either():
    def by_job(gpus, rate, checkpoint_s, restart_s):
        if not rate:
            return math.inf, 1.0
        mean_s = 86_400 / gpus / rate
        seconds = FailingJob(mean_time_between_s=mean_s, write_s=checkpoint_s).best_interval_s
        return seconds, left(seconds, mean_s, checkpoint_s, restart_s)

    assert judged(INTERVAL, by_job).status == "forbidden"


def test_an_array_of_two_numbers_is_as_good_as_a_tuple():
    assert judged(INTERVAL, lambda *job: np.array(right(*job)) * 0.9995).passed


def test_within_what_is_allowed_is_right():
    def near(*job):
        seconds, share = right(*job)
        return seconds * 1.009, share * 0.9992

    assert judged(INTERVAL, near).passed


def test_a_wrong_goodput_is_named_though_the_interval_was_searched_coarsely():
    """Two wrong answers are alike within the tolerances."""

    def sum_of_losses(gpus, rate, checkpoint_s, restart_s):
        seconds, _ = right(gpus, rate, checkpoint_s, restart_s)
        if not rate:
            return seconds, 1.0
        mean_s = 86_400 / gpus / rate
        return 1.004 * seconds, 1 - checkpoint_s / seconds - (seconds / 2 + restart_s) / mean_s

    assert judged(INTERVAL, sum_of_losses).mistake == "sum-of-losses"


def test_a_mistake_that_calls_the_goodput_right_has_the_right_one():
    """Also where a checkpoint takes longer than the machine holds out."""
    called = [mistake for mistake in MISTAKES if "goodput is right" in mistake.message]
    assert called
    for mistake in called:
        for case in CASES:
            assert mistake.example(*case.args)[1] == pytest.approx(best_of(*case.args)[1], rel=1e-6)


@pytest.mark.parametrize("case", [case for case in CASES if case.args[1]], ids=lambda case: case.label)
def test_the_best_is_the_top_of_the_promised_goodput(case):
    gpus, rate, checkpoint_s, restart_s = case.args
    mean_s = 86_400 / gpus / rate
    seconds, share = best_of(*case.args)
    assert share == pytest.approx(left(seconds, mean_s, checkpoint_s, restart_s), rel=1e-9)
    for times in (0.9, 0.99, 1.01, 1.1):
        assert left(times * seconds, mean_s, checkpoint_s, restart_s) < share


def test_the_cases_reach_where_the_usual_formulas_end():
    ratios = [job[2] * job[0] * job[1] / 86_400 for job in (case.args for case in CASES)]
    assert min(ratios) == 0
    assert any(0.9 < ratio < 1.1 for ratio in ratios)
    assert max(ratios) > 5
