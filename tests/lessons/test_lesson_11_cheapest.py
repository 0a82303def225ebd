"""The judge of 11.cheapest: what it refuses, in whose words, and what it lets pass."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from answers.lesson_11.right.cheapest import ANSWERS, by_sorting

from course_lib.learn.checks.checking import judged
from course_lib.learn.exercises.lesson_11.cheapest import CASES, CHEAPEST, cheapest_row
from course_lib.learn.exercises.lesson_11.cheapest.wrong_answers import MISTAKES


def right_row(*job):
    """What the judge compares with, by an answer's own hand: the judge's function may not be used."""
    found = by_sorting(*job)
    return found and tuple(found)


@pytest.mark.first_cases(3)
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_each_mistake_gets_its_own_message(mistake):
    verdict = judged(CHEAPEST, mistake.example)
    assert not verdict.passed
    assert (verdict.mistake, verdict.message) == (mistake.name, mistake.message)


def kept(rows, tokens, step_tokens, price, most_days, gpu_bytes):
    """(cost, seconds, number, GPUs) of each row that fits and is in time."""
    steps = -(-tokens // step_tokens)
    return [
        (gpus * steps * step_s / 3600 * price, steps * step_s, number, gpus)
        for number, (gpus, step_s, needed) in enumerate(rows)
        if needed <= gpu_bytes and steps * step_s <= most_days * 86_400
    ]


def told(possible, chosen, habit_cost):
    return (chosen[2], chosen[0], habit_cost / chosen[0] - 1) if possible else None


def row_counted_from_one(*job):
    found = cheapest_row(*job)
    return found and (found[0] + 1, *found[1:])


def the_row_itself(*job):
    found = cheapest_row(*job)
    return found and (job[0][found[0]], *found[1:])


def two_numbers(*job):
    found = cheapest_row(*job)
    return found and found[:2]


def swapped(*job):
    found = cheapest_row(*job)
    return found and (found[1], found[0], found[2])


def in_per_cent(*job):
    found = right_row(*job)
    return found and (*found[:2], 100 * found[2])


def dearest(*job):
    possible = kept(*job)
    return told(possible, max(possible), max(possible)[0]) if possible else None


def habit_by_cost(*job):
    """The dearest of all that would do, in place of the one with the most GPUs."""
    possible = kept(*job)
    return told(possible, min(possible), max(possible)[0]) if possible else None


def number_among_kept(*job):
    possible = kept(*job)
    if not possible:
        return None
    chosen = min(possible)
    most = max(gpus for *_, gpus in possible)
    habit = min(cost for cost, *_, gpus in possible if gpus == most)
    return possible.index(chosen), chosen[0], habit / chosen[0] - 1


def late_by_hours(rows, tokens, step_tokens, price, most_days, gpu_bytes):
    """Days of ten hours."""
    return right_row(rows, tokens, step_tokens, price, most_days * 10 / 24, gpu_bytes)


def whole_days_paid(*job):
    found = right_row(*job)
    if found is None:
        return None
    gpus, step_s, _ = job[0][found[0]]
    days = math.ceil(-(-job[1] // job[2]) * step_s / 86_400)
    return found[0], gpus * days * 24 * job[3], found[2]


def always_a_step_more(rows, tokens, step_tokens, price, most_days, gpu_bytes):
    return right_row(rows, tokens // step_tokens * step_tokens + 1, step_tokens, price, most_days, gpu_bytes)


def one_step(rows, tokens, step_tokens, price, most_days, gpu_bytes):
    return right_row(rows, 1, 1, price, most_days, gpu_bytes)


def never_none(*job):
    return right_row(*job) or ()


def on_the_page(*job):
    """Right for one of the cases."""
    return 1, 9536.75, 0.5555555555555556


def raises_when_nothing_fits(*job):
    possible = kept(*job)
    most = max(gpus for *_, gpus in possible)
    return told(possible, min(possible), min(cost for cost, *_, gpus in possible if gpus == most))


TIRED = (
    row_counted_from_one,
    the_row_itself,
    two_numbers,
    swapped,
    in_per_cent,
    dearest,
    habit_by_cost,
    number_among_kept,
    late_by_hours,
    whole_days_paid,
    always_a_step_more,
    one_step,
    never_none,
    on_the_page,
    raises_when_nothing_fits,
)


@pytest.mark.parametrize("answer", TIRED, ids=lambda answer: answer.__name__)
def test_a_wrong_answer_of_another_form_is_refused_without_a_name_that_is_not_its_own(answer):
    verdict = judged(CHEAPEST, answer)
    assert not verdict.passed
    assert verdict.mistake is None


SAID = [
    (lambda *job: None, "fits and ends in time, but you return None"),
    (lambda rows, tokens: 0, "TypeError"),
    (lambda *job: 1, "expected"),
    (never_none, "no row fits and ends in time, so None is right; got ()"),
]


@pytest.mark.parametrize(("answer", "said"), SAID)
def test_what_is_no_row_is_said(answer, said):
    verdict = judged(CHEAPEST, answer)
    assert not verdict.passed
    assert said in f"{verdict.message} {verdict.evidence}"


def test_an_answer_that_sorts_the_rows_is_told_so():
    def sorts(rows, *job):
        rows.sort()
        return right_row(rows, *job)

    assert not judged(CHEAPEST, sorts).passed


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.__name__)
def test_right_answers_are_right_where_the_check_does_not_try(answer):
    rows = [(4, 3.0, 9.0), (8, 2.0, 5.0), (12, 1.25, 3.0), (24, 1.0, 2.0)]
    for most_days in (0.25, 0.05, 0.02, 0.001):
        got, right = (
            answer(rows, 2501, 1, 2.0, most_days, 6.0),
            cheapest_row(rows, 2501, 1, 2.0, most_days, 6.0),
        )
        assert (got is None) == (right is None)
        assert right is None or tuple(got) == pytest.approx(right)


def test_no_case_depends_on_how_numbers_are_rounded():
    """Costs are equal or a millionth apart, and so are times and the deadline, in whatever order one multiplies."""
    for case in CASES:
        rows, tokens, step_tokens, price, most_days, _ = case.args
        steps = -(-tokens // step_tokens)
        times = [Fraction(step_s) * steps for _, step_s, _ in rows] + [Fraction(most_days) * 86_400]
        costs = [gpus * Fraction(step_s) * Fraction(price) for gpus, step_s, _ in rows]
        for numbers in (times, costs):
            for one in numbers:
                assert all(one == other or abs(one / other - 1) > 1e-6 for other in numbers), case.label


def test_the_habit_and_the_least_by_hand():
    # 10 steps: 8 GPUs for 40 s are 320 GPU seconds, 16 for 25 s are 400; the row with 32 does not fit
    rows = [(8, 4.0, 10.0), (16, 2.5, 10.0), (32, 1.0, 30.0)]
    number, cost, regret = cheapest_row(rows, 19, 2, 3600.0, 1.0, 20.0)
    assert (number, cost, regret) == (0, 320.0, 0.25)
