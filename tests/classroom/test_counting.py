"""What the board counts: places, checks, mistakes, predictions; and how numbers fall into bins."""

from __future__ import annotations

import random

import pytest

from course_lib.classroom.board.bins import bins_of
from course_lib.classroom.board.charts import chart_of
from course_lib.classroom.board.mistake_stats import checks, mistakes
from course_lib.classroom.board.prediction_stats import guesses
from course_lib.classroom.board.progress_by_part import where
from course_lib.classroom.board.read_shared import Learner
from course_lib.learn.checks.lesson_index import AskedQuestion, LessonIndex, places, question, title_of_check

KNOWN = LessonIndex(
    {"04a": "DDP: one", "04b": "DDP: two"},
    {"04.x": "04a", "04.y": "04b", "04.q": "04a"},
    {"04": "04b"},
    {"04a": ["04.x"], "04b": ["04.y"]},
)


def learner(word, *events):
    return Learner(word, word, tuple({"event": kind, "name": name, **more} for kind, name, more in events))


def check(name, status, mistake=None):
    return "check", name, {"status": status, "mistake": mistake}


def guess(value, **more):
    return "guess", "04.q", {"kind": "number", "unit": "KiB", "value": value, **more}


def told(predicted, measured, model=None, right=False, **more):
    fields = {"kind": "number", "unit": "KiB", "predicted": predicted, "measured": measured, "model": model}
    return "predict", "04.q", {**fields, "right": right, **more}


# -- who is where, what holds up -------------------------------------------------------------------------------------


def test_who_is_where_begun_and_through():
    class_ = [
        learner("a", check("04.x", "passed"), check("04.y", "not yet")),
        learner("b", check("04.x", "passed")),
        learner("c", check("04.x", "raised"), ("quiz", "04.one", {"right": True})),
        learner("d"),
    ]
    lines = where(class_, KNOWN)
    assert [(one.place, one.here, one.begun, one.through) for one in lines] == [
        ("04a", ("b",), 3, 2),
        ("04b", ("a", "c"), 2, 0),
    ]
    assert lines[0].short_title == "one"
    assert [one.place for one in where(class_, KNOWN, "04b")] == ["04b"]


def test_checks_that_hold_up_most_come_first():
    class_ = [
        learner("a", *[check("04.x", "not yet", "sums")] * 3, ("hint", "04.x", {"step": "x"})),
        learner("b", check("04.x", "raised"), check("04.x", "passed"), ("solution", "04.x", {})),
        learner("c", check("04.y", "passed"), check("04.x", "not attempted"), check("04.x", "blocked")),
    ]
    first, second = checks(class_, KNOWN)
    assert (first.name, first.tried, first.passed, first.held_up, first.tries) == ("04.x", 2, 1, 1, 3)
    assert (first.hinted, first.solved) == (1, 1)
    assert (second.name, second.held_up, second.tries) == ("04.y", 0, 1)
    (met,) = mistakes(class_, KNOWN)
    assert (met.words, met.learners, met.times) == ("sums", 1, 3)
    assert checks(class_, KNOWN, "04b")[0].name == "04.y"
    assert mistakes(class_, KNOWN, "04b") == ()


def test_every_check_and_question_of_the_course_has_its_part():
    known = places()
    assert known.place("04.sampler") == "04b"
    assert known.place("04.one", "quiz") == "04c"
    assert known.place("04.rounds", "quiz") == "04f"
    assert known.place("10.copies", "quiz") == "10d"
    assert known.place("12.copies", "quiz") == "12e"
    assert known.place("99.new") == "99"
    assert "04.sampler" in known.checks_in["04b"]
    assert known.place("13.A8").startswith("13")
    assert known.need("04A ") == "04a"
    with pytest.raises(ValueError, match="there is no lesson '4'; there are 00, 01a"):
        known.need("4")


def test_titles_come_from_the_rooms_and_an_unknown_name_has_none():
    assert title_of_check("04.sampler")
    assert question("04.calls").text
    assert question("13.A8").choices[0] == "holds"
    for name in ("04.nothing", "77.x"):
        assert (title_of_check(name), question(name)) == ("", AskedQuestion())


# -- predictions -----------------------------------------------------------------------------------------------------


def test_the_last_guess_before_the_answer_is_seen_counts():
    class_ = [
        learner("a", guess(3), guess(5), told(5, 12.0, 12), guess(12), told(12, 12.0, 12, right=True)),
        learner("b", guess(7)),
        learner("c", ("predict", "04.q", {"kind": "number", "right": False, "off": 0.25})),  # an older course's
    ]
    (found,) = guesses(class_, KNOWN)
    assert found.values == [5.0, 7.0]
    assert (found.seen, found.right, found.bare, found.unit) == (2, 0, 1, "KiB")
    assert found.answer("measured").value == 12.0


def test_a_bet_on_a_claim_is_a_choice_and_its_trial_the_measurement():
    class_ = [
        learner("a", ("bet", "13.A4", {"verdict": "holds"}), ("trial", "13.A4", {"verdict": "false"})),
        learner("b", ("bet", "13.A4", {"verdict": "false"}), ("trial", "13.A4", {"verdict": "false"}),
                ("predict", "13.A4", {"kind": "bet", "right": True})),
        learner("c", ("bet", "13.A4", {"verdict": "misleading"}), ("trial", "13.A4", {"blocked": True})),
    ]  # fmt: skip
    (found,) = guesses(class_, KNOWN)
    assert (found.values, found.seen, found.right) == (["holds", "false", "misleading"], 2, 1)
    chart = chart_of(found, AskedQuestion("A claim.", ("holds", "false")), reveal=True)
    assert [(row.label, row.count, row.marks) for row in chart.rows] == [
        ("holds", 1, ()), ("false", 1, ("measured",)), ("misleading", 1, ()),
    ]  # fmt: skip


@pytest.mark.parametrize("value", [None, True, {"a": 1}, float("nan"), 10**400, "x" * 999, [["a"]], -1e300, 5e-324])
def test_a_value_that_makes_no_sense_breaks_nothing(value):
    class_ = [learner("a", guess(value), told(value, value, value)), learner("b", guess(3), told(3, 4.0))]
    (found,) = guesses(class_, KNOWN)
    for reveal in (False, True):
        chart_of(found, AskedQuestion(), reveal=reveal)


def test_before_it_is_revealed_a_chart_holds_nothing_of_what_is_right():
    class_ = [learner(str(n), guess(n), told(n, 777.25, 888.5)) for n in (1, 2, 3)]
    (found,) = guesses(class_, KNOWN)
    covered = chart_of(found, AskedQuestion("How much?"), reveal=False)
    assert covered.marks == ()
    assert covered == chart_of(guesses([learner(str(n), guess(n)) for n in (1, 2, 3)], KNOWN)[0],
                               AskedQuestion("How much?"), reveal=False)  # fmt: skip
    shown = chart_of(found, AskedQuestion("How much?"), reveal=True)
    assert [mark.text for mark in shown.marks] == ["measured: 777 KiB", "cost model: 888 KiB"]
    assert [row.marks for row in shown.rows][-1] == ("measured", "model")


def test_sentences_say_how_far_the_room_was_off():
    class_ = [learner(str(n), guess(10 * n), told(10 * n, 5 + n % 2, 5, right=n == 1)) for n in (1, 2, 3)]
    chart = chart_of(guesses(class_, KNOWN)[0], AskedQuestion(), reveal=True)
    text = " ".join(chart.sentences)
    assert "3 learners predicted. The middle answer: 20 KiB." in text
    assert "Measured: 6 KiB in the middle of 3 runs, from 5 KiB to 6 KiB. The cost model says 5 KiB." in text
    assert "3.3 times too much" in text
    assert "1 of 3 learners who have seen it had predicted right." in text


def test_revealed_before_anybody_has_run_it():
    chart = chart_of(guesses([learner("a", guess(1))], KNOWN)[0], AskedQuestion(), reveal=True)
    assert "nothing was measured" in chart.sentences[-1]


def test_orders_are_counted_whole_and_the_right_one_has_a_row():
    def order(*items):
        return "guess", "04.q", {"kind": "order", "value": list(items)}

    seen = (
        "predict",
        "04.q",
        {"kind": "order", "predicted": ["a", "b"], "measured": ["b", "a"], "right": False},
    )
    class_ = [learner("a", order("a", "b"), seen), learner("b", order("a", "b"))]
    chart = chart_of(guesses(class_, KNOWN)[0], AskedQuestion(), reveal=True)
    assert [(row.label, row.count, row.marks) for row in chart.rows] == [
        ("a, b", 2, ()),
        ("b, a", 0, ("measured",)),
    ]


# -- bins ------------------------------------------------------------------------------------------------------------


def test_no_number_is_lost_between_bins_and_marks_stand_inside():
    draw = random.Random(4)
    for trial in range(300):
        wide = trial % 3
        numbers = [
            draw.choice((0.0, draw.uniform(-5, 5), float(draw.randint(0, 40)), 10 ** draw.uniform(-6, 14)))
            if wide else float(draw.randint(3, 9))
            for _ in range(draw.randint(1, 40))
        ]  # fmt: skip
        also = [draw.choice(numbers) * draw.uniform(0.5, 2)]
        bins = bins_of(numbers, draw.choice(("", "ms", "KiB", "%")), also)
        assert sum(one.count for one in bins.bins) == len(numbers), (numbers, bins)
        assert len(bins.bins) <= 13
        for number in also:
            assert -1e-6 <= bins.place_of(number) <= len(bins.bins) + 1e-6, (numbers, number, bins)
        for one in bins.bins:
            held = sum(one.low <= n < one.high or n == one.low == one.high for n in numbers)
            assert abs(held - one.count) <= 1  # the last takes its own upper edge


def test_scales():
    percent = bins_of([0, 50, 99.0, 100], "%", [101.0][:0], 100)
    assert [one.count for one in percent.bins] == [1, 0, 0, 0, 0, 1, 0, 0, 0, 2]
    sizes = bins_of([1, 3, 64, 1024], "KiB")
    assert sizes.is_log
    assert [one.low for one in sizes.bins][:3] == [1, 2, 4]
    whole = bins_of([3, 4, 4, 8], "ranks")
    assert [(one.low, one.count) for one in whole.bins] == [(3, 1), (4, 2), (5, 0), (6, 0), (7, 0), (8, 1)]
    zeros = bins_of([0, 1, 100], "ms")
    assert zeros.has_zeros
    assert zeros.bins[0].count == 1
    assert bins_of([]).bins == ()
    assert len(bins_of([0.0, 0.0]).bins) == 1


def test_bars_are_called_as_people_say():
    def labels(values, unit):
        class_ = [learner(str(n), guess(v, unit=unit)) for n, v in enumerate(values)]
        return [row.label for row in chart_of(guesses(class_, KNOWN)[0], AskedQuestion(), reveal=False).rows]

    assert labels([3, 4], "ranks") == ["3 ranks", "4 ranks"]
    assert labels([1, 30], "steps")[-1] == "16 to 31 steps"
    assert labels([1.5, 9000], "ms")[:2] == ["1 to 3.16 ms", "3.16 to 10 ms"]
    assert labels([0, 1.5, 900], "ms")[0] == "0 s"
