"""The judge of 13.own: what it refuses, in whose words, and what it lets pass; and worlds that are what they say."""

from __future__ import annotations

import statistics

import pytest
from answers.lesson_13.right.own import ANSWERS

from course_lib.authoring.bench.judging import kept_answers
from course_lib.learn.checks.checking import judged
from course_lib.learn.exercises.lesson_13.own import OWN, decided
from course_lib.learn.exercises.lesson_13.own.mistakes import MISTAKES
from course_lib.learn.exercises.lesson_13.own.worlds import OPEN, WORLDS, Clock

pytestmark = pytest.mark.xdist_group("exercises")


@pytest.mark.first_cases(3)
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_each_mistake_gets_its_own_message(mistake):
    verdict = judged(OWN, kept_answers.examples("13.own")[mistake.name])
    assert not verdict.passed
    assert (verdict.mistake, verdict.message) == (mistake.name, mistake.message)


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.__name__)
def test_right_answers_pass(answer):
    assert judged(OWN, answer).passed


@pytest.mark.parametrize("seed", range(8))
def test_no_world_lies_so_near_an_edge_that_another_draw_decides_otherwise(seed):
    for label, world in WORLDS.items():
        clock = Clock(world)
        clock._random.seed(seed)
        verdict, _ = decided(clock, list(world.ratios), world.pairs)
        assert verdict == world.verdict, label


def test_the_worlds_have_every_verdict_and_each_kind_of_noise():
    assert {world.verdict for world in WORLDS.values()} == {"holds", "holds with conditions", "false", OPEN}
    for trouble in ("slow_every", "slow_first"):
        assert any(getattr(world, trouble) for world in WORLDS.values())
    assert {world.grows > 1 for world in WORLDS.values() if world.grows != 1} == {True, False}


# -- wrong answers of a tired evening ----------------------------------------------------------------------------------


def ratios_of(time_s, size, pairs):
    return [1 / (time_s(size) / time_s(2 * size)) for _ in range(pairs)]


def always(verdict):
    def answer(time_s, sizes, pairs):
        return verdict, decided(time_s, sizes, pairs)[1]

    return answer


def only_the_verdict(*world):
    return decided(*world)[0]


def swapped(*world):
    return decided(*world)[::-1]


def a_boolean(*world):
    verdict, middles = decided(*world)
    return verdict == "holds", middles


def open_is_none(*world):
    verdict, middles = decided(*world)
    return (None if verdict == OPEN else verdict), middles


def medians_in_a_list(*world):
    verdict, middles = decided(*world)
    return verdict, list(middles.values())


def means_in_place_of_medians(time_s, sizes, pairs):
    seen = []

    def noted(size):
        seen.append((size, time_s(size)))
        return seen[-1][1]

    verdict, _ = decided(noted, sizes, pairs)
    ratios = [(size, two_s / one_s) for (_, two_s), (size, one_s) in zip(seen[::2], seen[1::2], strict=True)]
    return verdict, {size: statistics.mean(ratio for of, ratio in ratios if of == size) for size in sizes}


def half_of_the_pairs(time_s, sizes, pairs):
    return decided(time_s, sizes, pairs // 2)


def three_pairs(time_s, sizes, pairs):
    return decided(time_s, sizes, 3)


def the_first_size_alone(time_s, sizes, pairs):
    verdict, middles = decided(time_s, sizes[:1], pairs)
    return verdict, dict.fromkeys(sizes, middles[sizes[0]])


def fastest_of_each(time_s, sizes, pairs):
    middles = {
        size: min(time_s(2 * size) for _ in range(pairs)) / min(time_s(size) for _ in range(pairs)) for size in sizes
    }
    inside = [1.8 <= ratio <= 2.2 for ratio in middles.values()]
    return ("holds" if all(inside) else "holds with conditions" if any(inside) else "false"), middles


def mean_and_deviation(time_s, sizes, pairs):
    """One standard deviation on both sides of the mean, which a disturbed call makes as wide as it likes."""
    found, middles = set(), {}
    for size in sizes:
        ratios = ratios_of(time_s, size, pairs)
        middle, off = statistics.mean(ratios), statistics.stdev(ratios)
        middles[size] = statistics.median(ratios)
        inside, outside = (
            middle - off >= 1.8 and middle + off <= 2.2,
            middle + off < 1.8 or middle - off > 2.2,
        )
        found.add("holds" if inside else "false" if outside else OPEN)
    return (OPEN if OPEN in found else found.pop() if len(found) == 1 else "holds with conditions"), middles


def until_it_holds(time_s, sizes, pairs):
    """Goes on until it likes what it sees."""
    for _ in range(5):
        verdict, middles = decided(time_s, sizes, pairs)
        if verdict == "holds":
            break
    return verdict, middles


def quartiles_of_times(time_s, sizes, pairs):
    """Pairs are measured, and then torn apart: the quartile of one by the quartile of the other."""
    found, middles = set(), {}
    for size in sizes:
        times = [(time_s(size), time_s(2 * size)) for _ in range(pairs)]
        ones, twos = (statistics.quantiles(column, n=4) for column in zip(*times, strict=True))
        low, middles[size], high = twos[0] / ones[2], twos[1] / ones[1], twos[2] / ones[0]
        found.add("holds" if low >= 1.8 and high <= 2.2 else "false" if high < 1.8 or low > 2.2 else OPEN)
    return (OPEN if OPEN in found else found.pop() if len(found) == 1 else "holds with conditions"), middles


def wider_bounds(time_s, sizes, pairs):
    found, middles = set(), {}
    for size in sizes:
        low, middles[size], high = statistics.quantiles(ratios_of(time_s, size, pairs), n=4)
        found.add("holds" if low >= 1.5 and high <= 2.5 else "false" if high < 1.5 or low > 2.5 else OPEN)
    return (OPEN if OPEN in found else found.pop() if len(found) == 1 else "holds with conditions"), middles


def prints(*world):
    print(decided(*world)[0])


TIRED = (
    *map(always, ("holds", "false", "holds with conditions", OPEN)),
    only_the_verdict,
    swapped,
    a_boolean,
    open_is_none,
    medians_in_a_list,
    means_in_place_of_medians,
    half_of_the_pairs,
    three_pairs,
    fastest_of_each,
    quartiles_of_times,
    wider_bounds,
    prints,
)


@pytest.mark.parametrize("answer", TIRED, ids=lambda answer: answer.__name__)
def test_a_wrong_answer_of_another_form_is_refused_without_a_name_that_is_not_its_own(answer):
    verdict = judged(OWN, answer)
    assert not verdict.passed
    assert verdict.mistake is None, verdict


def test_a_deviation_is_told_what_it_has_in_common_with_the_extremes():
    assert judged(OWN, mean_and_deviation).mistake == "extremes"


@pytest.mark.parametrize(
    ("answer", "name"),
    [(until_it_holds, "optional-stopping"), (the_first_size_alone, "sizes-untried")],
)
def test_other_forms_of_a_mistake_have_its_name(answer, name):
    assert judged(OWN, answer).mistake == name


def test_a_fixed_number_of_measurements_is_no_optional_stopping():
    def always_so_many(time_s, sizes, pairs):
        return decided(time_s, sizes, 200)

    verdict = judged(OWN, always_so_many)
    assert not verdict.passed
    assert verdict.mistake is None


def test_a_few_measurements_to_warm_up_are_no_matter():
    def warmed_up(time_s, sizes, pairs):
        for size in sizes:
            for _ in range(5):
                time_s(size), time_s(2 * size)
        return decided(time_s, sizes, pairs)

    assert judged(OWN, warmed_up).passed


SAID = [
    (prints, "nothing came back"),
    (only_the_verdict, "expected a verdict and the median ratio by size"),
    (a_boolean, "the verdict is to be one of 'holds'"),
    (medians_in_a_list, "a dictionary with the sizes"),
    (half_of_the_pairs, "from too few measurements: 30 of"),
    (means_in_place_of_medians, "the verdict is right, but at"),
    (always("holds"), "there 'false' is right, and your trial says 'holds'"),
    (lambda time_s, sizes, pairs: time_s(3), "here 67,108,864, 268,435,456 bytes are of interest"),
    (lambda time_s, sizes, pairs: ("holds", dict.fromkeys(sizes, "two")), "is to be a number, got 'two'"),
]


@pytest.mark.parametrize(("answer", "said"), SAID)
def test_what_is_said_was_seen(answer, said):
    verdict = judged(OWN, answer)
    assert not verdict.passed
    assert said in f"{verdict.message} {verdict.evidence}"


def test_an_answer_that_measures_for_ever_is_stopped():
    def for_ever(time_s, sizes, pairs):
        while True:
            time_s(sizes[0])

    object.__setattr__(OWN, "time_limit_s", 0.3)
    try:
        assert judged(OWN, for_ever).status == "too slow"
    finally:
        object.__setattr__(OWN, "time_limit_s", 20.0)
