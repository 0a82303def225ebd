"""``Predict``: locking, the form, and the reveal, without and with a front end."""

from __future__ import annotations

import itertools
import math

import pytest

from course_lib.learn import Predict
from course_lib.learn.display.units import quantity, ratio
from course_lib.learn.predictions.predict_form import parse_number

_numbers = itertools.count()


@pytest.fixture
def name():
    return f"99.p{next(_numbers)}"


def test_a_number_is_locked_and_stays_locked_when_the_cell_runs_again(name):
    p = Predict(name, "How long?", unit="ms")
    assert p.value is None
    assert "12 ms" in repr(p.commit(12))
    again = Predict(name, "How long?", unit="ms")
    assert (again.locked, again.value) == (True, 12)
    assert repr(again) == "Prediction: How long? Your answer is locked: 12 ms."


def test_a_locked_answer_is_not_changed_and_a_sentence_says_so(name):
    p = Predict(name, "How long?", unit="ms")
    p.commit(12)
    assert "locked: 12 ms" in repr(p.commit(13))
    assert p.value == 12
    p.reset()
    p.commit(13)
    assert p.value == 13


def test_after_the_reveal_nothing_can_be_predicted_until_reset(name):
    p = Predict(name, "How long?", unit="ms")
    p.reveal(measured=4)
    said = repr(p.commit(4))
    assert "has been shown" in said
    line = f'ask("{name}").reset()'
    assert line in said
    assert line in p.form().status.value.replace("&quot;", '"')
    assert p.value is None
    p.reset()
    p.commit(4)
    assert p.value == 4


def test_a_question_that_was_rewritten_opens_again(name):
    Predict(name, "Which?", choices=["a", "b"]).commit("a")
    assert Predict(name, "Which?", choices=["c", "d"]).value is None


@pytest.mark.parametrize(
    ("kinds", "value", "words"),
    [
        ({}, "twelve", "not a number"),
        ({}, True, "not a number"),
        ({}, float("nan"), "not a number"),
        ({"unit": "%", "high": 100}, 120, "from 0 to 100 %; the nearest is 100"),
        ({}, -1, "nearest is 0"),
        ({"choices": ["yes", "no"]}, "perhaps", "choices are"),
        ({"order": ["a", "b"]}, ["a", "a"], "each of them once"),
        ({"order": ["a", "b"]}, "a", "each of them once"),
        ({"order": ["a", "b"]}, [["a"], "b"], "each of them once"),
    ],
)
def test_an_answer_of_the_wrong_kind_is_refused(name, kinds, value, words):
    p = Predict(name, "?", **kinds)
    with pytest.raises(ValueError, match=words):
        p.commit(value)
    assert not p.locked


@pytest.mark.parametrize(
    "kinds",
    [{"choices": ["a"]}, {"choices": ["a", "a"]}, {"choices": [], "order": []}, {"low": 1, "high": 1}],
)
def test_a_bad_question_is_refused(name, kinds):
    with pytest.raises(ValueError, match=name):
        Predict(name, "?", **kinds)


def test_the_form_locks_a_number_and_then_closes(name):
    p = Predict(name, "How long?", unit="ms")
    form, other = p.form(), p.form()
    (box,) = form.inputs
    assert box.description == "Your prediction, in ms:"
    assert not box.continuous_update  # or a quick press of the button would overtake the last letters
    form.button.click()
    assert "Give an answer first" in form.status.value
    box.value = "soon"
    form.button.click()
    assert "is not a number" in form.status.value
    box.value = "2.5 ms"
    form.button.click()
    assert p.value == 2.5
    for one in (form, other):
        assert one.inputs[0].disabled
        assert not one.button.disabled  # it would lose the focus of the keyboard
        assert "Locked: 2.5 ms" in one.status.value
    assert other.inputs[0].value == "2.5"
    form.button.click()
    assert "Already locked: 2.5 ms" in form.status.value
    p.reset()
    assert not form.inputs[0].disabled


def test_the_form_of_a_choice(name):
    p = Predict(name, "Which?", choices=["first", "second"])
    form = p.form()
    assert form.inputs[0].label == "choose ..."
    form.button.click()
    assert not p.locked
    form.inputs[0].value = "second"
    form.button.click()
    assert p.value == "second"


def test_the_form_of_an_order(name):
    p = Predict(name, "Which order?", order=["a", "b", "c"])
    form = p.form()
    assert [control.description for control in form.inputs] == ["1st:", "2nd:", "3rd:"]
    for control, item in zip(form.inputs, "cab", strict=True):
        control.value = item
    form.button.click()
    assert p.value == ("c", "a", "b")
    assert "c, a, b" in form.status.value


def test_every_control_has_a_name(name):
    for kinds in ({}, {"choices": ["a", "b"]}, {"order": ["a", "b"]}):
        form = Predict(name, "?", **kinds).form()
        assert all(control.description for control in (*form.inputs, form.button))


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("12", 12),
        (" 2.5 ", 2.5),
        ("2,5", 2.5),
        ("1,000", 1000),
        ("1,234,567.5", 1234567.5),
        ("2e6", 2e6),
        ("3 ms", 3),
    ],
)
def test_numbers_as_people_type_them(text, number):
    assert parse_number(text, "ms") == number


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("40 times", "times"),
        ("40x", "times"),
        ("40 ×", "x"),
        ("40 percent", "%"),
        ("40 per cent", "%"),
        ("40%", "%"),
        ("40 micro-batches", "micro-batches"),
        ("40 micro-batch", "micro-batches"),
        ("40 times", "times the loss"),
        ("40 GB", "GB"),
    ],
)
def test_a_number_may_have_its_unit_in_other_words(text, unit):
    assert parse_number(text, unit) == 40


@pytest.mark.parametrize(("text", "unit"), [("4 MiB", "KiB"), ("a few", "KiB"), ("4 MB", "MB/s")])
def test_another_unit_is_refused_with_the_one_that_is_asked_for(text, unit):
    with pytest.raises(ValueError, match=f"{text}' is not a number; write it in {unit}, like 12 or 0.5"):
        parse_number(text, unit)


@pytest.mark.parametrize("text", ["40 µs", "40μs", "40 us", "40"])
def test_microseconds_as_people_type_them(text):
    assert parse_number(text, "µs") == 40


def test_a_bundle_holds_the_widget_and_a_sentence(name):
    bundle = Predict(name, "How long?", unit="ms")._repr_mimebundle_()
    assert bundle["text/plain"] == "Prediction: How long? Lock a number in ms: commit(12)."
    assert "application/vnd.jupyter.widget-view+json" in bundle


def test_the_reveal_shows_three_values_and_names_the_misreading(name, capsys):
    p = Predict(name, "How much memory?", unit="bytes")
    p.commit(4096)
    capsys.readouterr()
    shown = p.reveal(
        measured=16384,
        model=16000,
        because="Adam keeps two more.",
        misreadings={8: "no", 4100: "Those are the weights alone.", 4096: "second"},
    )
    text = repr(shown)
    assert text == capsys.readouterr().out.rstrip("\n")
    assert "you predicted: 4 KiB; the cost model says: 15.6 KiB; measured: 16 KiB." in text
    assert "Your prediction: 4 times too little." in text
    assert "Those are the weights alone." in text
    assert "second" not in text
    assert (shown.off, shown.is_right) == (0.25, False)
    page = shown._html()
    assert "<td" in page
    assert "0.25" in page
    assert "Adam keeps two more." in page


def test_the_reveal_without_a_prediction_shows_the_rest(name):
    shown = Predict(name, "How long?", unit="s").reveal(measured=2.0, misreadings={2.0: "never"})
    assert "You did not predict" in repr(shown)
    assert "measured: 2 s" in repr(shown)
    assert "never" not in repr(shown)
    assert "you predicted" not in repr(shown)
    assert (shown.is_right, shown.off) == (None, None)


def test_a_misreading_may_be_a_function(name):
    p = Predict(name, "Speed-up?", unit="times")
    p.commit(4)
    assert "linear" in repr(p.reveal(measured=2.6, misreadings={lambda v: v >= 4: "You took it to be linear."}))


@pytest.mark.parametrize(("answer", "words"), [("a", "As you predicted."), ("b", "Not as you predicted.")])
def test_the_reveal_of_a_choice(name, answer, words):
    p = Predict(name, "Which?", choices=["a", "b"])
    p.commit(answer)
    shown = p.reveal(measured="a", misreadings={"b": "b comes later."})
    assert words in repr(shown)
    assert ("b comes later." in repr(shown)) == (answer == "b")


def test_the_reveal_of_an_order(name):
    p = Predict(name, "Which order?", order=["a", "b", "c"])
    p.commit(["b", "a", "c"])
    shown = p.reveal(measured=["b", "a", "c"])
    assert shown.is_right
    assert "measured: b, a, c." in repr(shown)


def test_a_table_has_no_empty_column(name):
    p = Predict(name, "?")
    assert "÷" not in p.reveal(measured=10)._html()
    p.reset()
    p.commit(5)
    assert "÷ measured" in p.reveal(measured=10)._html()


@pytest.mark.parametrize(("measured", "right"), [(10, True), (12, True), (13, False), (0, False)])
def test_a_number_within_a_quarter_is_right(name, measured, right):
    p = Predict(name, "?")
    p.commit(10)
    assert p.reveal(measured=measured).is_right is right


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (3481600, "bytes", "3.32 MiB"),
        (1, "bytes", "1 byte"),
        (1023, "bytes", "1,023 bytes"),
        (1.5, "GiB", "1.5 GiB"),
        (100, "kB", "100 kB"),
        (1500, "kB", "1.5 MB"),
        (36.5, "GB", "36.5 GB"),
        (0.42, "ms", "420 µs"),
        (1500, "ms", "1.5 s"),
        (90, "s", "90 s"),
        (0, "s", "0 s"),
        (2e-10, "s", "0.2 ns"),
        (25, "%", "25 %"),
        (3.14159, "", "3.14"),
        (1234567, "", "1,234,567"),
        (2.5e9, "FLOP", "2.5 GFLOP"),
        (12e9, "B/s", "12 GB/s"),
        (2, "x", "2 times"),
        (1, "x", "1 times"),
        (1, "micro-batches", "1 micro-batch"),
        (1.5, "micro-batches", "1.5 micro-batches"),
        (1, "GB/s", "1 GB/s"),
        (1, "ranks", "1 rank"),
        (1, "times the limit", "1 times the limit"),
        ("all ranks", "", "all ranks"),
        (["a", "b"], "", "a, b"),
        (float("inf"), "s", "inf s"),
    ],
)
def test_quantities(value, unit, text):
    assert quantity(value, unit) == text


@pytest.mark.parametrize(
    ("predicted", "measured", "text"),
    [
        (5, 5, "exactly right"),
        (100.1, 100, "within half a per cent"),
        (104, 100, "within 4 %, a little too much"),
        (150, 100, "50 % too much"),
        (60, 100, "40 % too little"),
        (300, 100, "3 times too much"),
        (100, 350, "3.5 times too little"),
        (0, 3, "3 too little"),
        (18, 0, "18 too much"),
        (-1, 0.5, "1.5 too little"),
        (256, math.inf, "too little by any factor"),
    ],
)
def test_ratios_in_words(predicted, measured, text):
    assert ratio(predicted, measured) == text


def test_a_difference_beside_a_zero_has_its_unit():
    assert ratio(0, 1.5, "MiB") == "1.5 MiB too little"
    assert ratio(3, 0, "times") == "3 too much"


@pytest.mark.parametrize(
    ("predicted", "measured", "text"),
    [
        (65, 65, "exactly right"),
        (90, 65, "25 percentage points too much"),
        (0, 65, "65 percentage points too little"),
        (5, 0, "5 percentage points too much"),
        (1.2, 1.9, "0.7 percentage points too little"),
        (66, 65, "1 percentage point too much"),
        (65.01, 65, "within a tenth of a percentage point"),
        (250, 30.5, "220 percentage points too much"),
        (-5, 12, "17 percentage points too little"),
        (50, math.inf, "too little by any factor"),
    ],
)
def test_a_share_in_per_cent_is_off_by_points_and_no_per_cent_of_per_cent(predicted, measured, text):
    assert ratio(predicted, measured, "%") == text


def test_what_was_not_measured_is_not_called_so():
    guess = Predict("99.label", "How much?", unit="ms")
    guess.commit(2)
    shown = guess.reveal(measured=4, label="computed")
    assert "computed: 4 ms" in repr(shown)
    assert "measured" not in repr(shown)
    assert "÷ computed" in shown._html()
