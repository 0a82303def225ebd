"""``check``: every verdict it can give, and that nothing a learner writes stops or changes the notebook."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import random
import sys
import time

import pytest
import torch
from waiting import wait_until

from course_lib.learn import check, exercises, hint
from course_lib.learn.catalogue.exercise import AnswerOutcome, Case, Evidence, Exercise, Mistake
from course_lib.learn.checks.checking import judged
from course_lib.learn.judging.judge import by_cases, by_value


def right(items, num_parts):
    return [items[rank::num_parts] for rank in range(num_parts)]


def same_for_all(items, num_parts):
    return [items for _ in range(num_parts)]


def one_short(items, num_parts):
    return right(items, num_parts)[:-1]


def by_library(items, num_parts):
    return [part.tolist() for part in torch.tensor(items).tensor_split(num_parts)]


SPLIT = Exercise(
    name="99.split",
    title="Deal items to ranks",
    judge=by_cases([Case(f"{n} items for {w} ranks", (list(range(n)), w), right) for n, w in [(4, 2), (5, 2), (3, 3)]]),
    mistakes=(
        Mistake("all-to-all", "Every rank holds every item; each item has one owner.", same_for_all),
        Mistake(
            "one-short",
            "One rank has no part.",
            one_short,
            lambda e: all(len(o.got) < o.case_w for o in e.outcomes),
        ),
        Mistake("one-short-too", "The last rank has no part.", one_short),
    ),
    hints=("one", "two", "three"),
    forbidden=("torch.tensor_split", "torch.Tensor.tensor_split"),
    time_limit_s=1.0,
    passed="Each item has one owner.",
)


@pytest.fixture
def known(monkeypatch):
    monkeypatch.setattr(exercises, "exercise", lambda name: {"99.split": SPLIT}[name])


def test_a_right_answer_passes(known, capsys):
    verdict = check("99.split", right)
    assert verdict.passed
    assert bool(verdict)
    assert repr(verdict) == "✓ 99.split: passed. Each item has one owner."
    assert capsys.readouterr().out == repr(verdict) + "\n"


def stub(items, num_parts):
    """Deal the items."""
    raise NotImplementedError("Your turn: deal the items")


def stub_of_dots(items, num_parts):
    """Deal the items."""
    ...


def half_done(items, num_parts):
    parts = [[] for _ in range(num_parts)]
    if parts:
        raise NotImplementedError("Your turn: fill the parts")
    return parts


def gives_dots(items, num_parts):
    parts = ...
    return parts


@pytest.mark.parametrize("answer", [..., stub, stub_of_dots, half_done, gives_dots, [1, ...], {"a": ...}])
def test_a_stub_is_not_attempted(answer):
    verdict = judged(SPLIT, answer)
    assert verdict.status == "not attempted", verdict
    assert not verdict.passed


def test_a_lambda_that_does_nothing_is_somebodys_answer():
    verdict = judged(SPLIT, lambda items, num_parts: None)
    assert verdict.status == "not yet"
    assert "nothing came back (`None`)" in verdict.message


def test_a_class_with_a_stub_method_is_not_attempted():
    class Split:
        def __init__(self):
            self.parts = []

        def __call__(self, items, num_parts):
            raise NotImplementedError("Your turn")

    verdict = judged(SPLIT, Split)
    assert verdict.status == "not attempted"
    assert "There is a stub left to fill: `__call__`." in verdict.message


def test_a_stub_of_any_kind_of_method_is_not_attempted():
    class ByStatic:
        @staticmethod
        def split(items, num_parts):
            raise NotImplementedError("Your turn")

    class ByClass:
        @classmethod
        def split(cls, items, num_parts):
            raise NotImplementedError("Your turn")

    class HalfWritten(ByStatic):
        @staticmethod
        def split(items, num_parts):
            raise NotImplementedError("Your turn")

        @staticmethod
        def join(parts):
            return parts[0]

    assert judged(SPLIT, HalfWritten).status == "raised"
    assert judged(SPLIT, ByStatic).status == "not attempted"
    assert judged(SPLIT, ByClass).status == "not attempted"


def test_a_torch_not_implemented_error_is_an_error_and_no_stub():
    def answer(items, num_parts):
        return torch.empty(2, device="meta").tolist()

    verdict = judged(SPLIT, answer)
    assert verdict.status == "raised"
    assert "NotImplementedError" in verdict.message


def test_a_named_mistake_gets_its_message_and_the_evidence():
    verdict = judged(SPLIT, lambda items, num_parts: same_for_all(items, num_parts))
    assert (verdict.status, verdict.mistake) == ("not yet", "all-to-all")
    assert verdict.message == SPLIT.mistakes[0].message
    assert verdict.evidence.startswith("with 4 items for 2 ranks: item 0: expected 2 items")


def test_a_recogniser_that_raises_recognises_nothing_and_the_next_mistake_is_tried():
    assert judged(SPLIT, one_short).mistake == "one-short-too"


def test_an_answer_that_differs_where_the_example_is_right_is_another_mistake():
    cases = [Case(f"{n} items", (n,), lambda n: -(-n // 2)) for n in (4, 5)]
    rounds_down = Mistake("rounds-down", "An odd item is lost.", lambda n: n // 2)
    exercise = Exercise(name="99.half", title="", judge=by_cases(cases), mistakes=(rounds_down,), hints=("a", "b", "c"))
    assert judged(exercise, lambda n: int(n / 2)).mistake == "rounds-down"
    assert judged(exercise, lambda n: 2 if n == 5 else 7).mistake is None


def test_an_unknown_mistake_is_told_by_its_first_difference():
    verdict = judged(SPLIT, lambda items, num_parts: [list(reversed(p)) for p in right(items, num_parts)])
    assert (verdict.status, verdict.mistake) == ("not yet", None)
    expected = "With 4 items for 2 ranks: item 0: item 0: expected 0, got 2. It shows in 2 of 3 results."
    assert verdict.message == expected


def test_a_result_instead_of_the_function_is_told():
    verdict = judged(SPLIT, [[0, 2], [1, 3]])
    assert verdict.status == "not yet"
    assert "without calling it" in verdict.message


def test_wrong_arity_is_told():
    verdict = judged(SPLIT, lambda items: items)
    assert verdict.status == "raised"
    assert "2 were given" in verdict.message


def test_an_exception_names_its_line_and_the_case():
    def answer(items, num_parts):
        return items[99]

    verdict = judged(SPLIT, answer)
    assert verdict.status == "raised"
    assert "IndexError: list index out of range, on line" in verdict.message
    assert "`return items[99]`" in verdict.message
    assert verdict.message.endswith("with 4 items for 2 ranks.")


def recurse(items, num_parts):
    return recurse(items, num_parts)


def leave(items, num_parts):
    sys.exit(3)


class Odd(BaseException):
    pass


def odd(items, num_parts):
    raise Odd


class Hostile:
    def __eq__(self, other):
        raise RuntimeError("no")

    __hash__ = None

    def __repr__(self):
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        (recurse, "raised", "RecursionError"),
        (leave, "raised", "asked Python to exit"),
        (odd, "raised", "Odd"),
        (lambda items, num_parts: Hostile(), "not yet", "Hostile"),
        (lambda items, num_parts: [Hostile()] * num_parts, "not yet", "Hostile"),
        (Hostile(), "not yet", "Hostile"),
        (functools.partial(right, num_parts=2), "raised", "TypeError"),
    ],
)
def test_nothing_an_answer_does_is_raised(known, answer, status, words):
    verdict = check("99.split", answer)
    assert verdict.status == status, verdict
    assert words in repr(verdict)


def test_no_message_shows_an_address_or_a_long_list():
    def raises(items, num_parts):
        raise ValueError(f"{raises} of {list(range(500))}")

    message = judged(SPLIT, raises).message
    assert "ValueError: the function raises of [0, 1, 2," in message
    assert " ... " in message
    assert len(message) < 500
    assert " at 0x" not in repr(judged(SPLIT, lambda items, num_parts: [raises, Hostile]))


def test_an_interrupt_is_told():
    def answer(items, num_parts):
        raise KeyboardInterrupt

    assert judged(SPLIT, answer).status == "blocked"


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no words")


def test_an_error_whose_message_cannot_be_made_is_told():
    def answer(items, num_parts):
        raise Mute

    verdict = judged(SPLIT, answer)
    assert verdict.status == "raised"
    assert "Mute: (its message could not be made)" in verdict.message
    value = by_value(lambda: (_ for _ in ()).throw(Mute()))  # also where the judge itself is at fault
    assert judged(dataclasses.replace(SPLIT, judge=value), 5).status == "raised"


def endless(items, num_parts):
    while True:
        with contextlib.suppress(Exception):
            time.sleep(0.01)


def asleep(items, num_parts):
    time.sleep(60)


@pytest.mark.parametrize("answer", [endless, asleep])
def test_an_answer_that_never_ends_is_stopped(answer):
    verdict = judged(SPLIT, answer)
    assert verdict.status == "too slow"
    assert verdict.message.startswith("Your code ran on for 1 seconds, ")
    assert "was stopped, on line " in verdict.message
    loop = ("(`time.sleep(", "(`with contextlib.suppress(", "(`while True:")  # wherever it was just then
    assert any(line in verdict.message for line in loop)
    assert "`), with 4 items for 2 ranks. Does a loop never end?" in verdict.message


def test_an_example_that_takes_long_is_not_held_against_the_answer():
    def slow(items, num_parts):
        time.sleep(60)

    exercise = dataclasses.replace(SPLIT, mistakes=(Mistake("slow", "You sleep.", slow),))
    verdict = judged(exercise, lambda items, num_parts: [])
    assert (verdict.status, verdict.mistake) == ("not yet", None)
    assert verdict.message.startswith("With 4 items for 2 ranks: expected 2 items")


def test_an_endless_answer_is_stopped_outside_the_main_thread():
    import threading

    found = []
    thread = threading.Thread(target=lambda: found.append(judged(SPLIT, endless)), daemon=True)
    thread.start()
    thread.join(20)
    assert found
    assert found[0].status == "too slow"


def test_what_is_printed_is_kept_and_capped(capsys):
    def answer(items, num_parts):
        print("x" * 100_000)
        return right(items, num_parts)

    verdict = judged(SPLIT, answer)
    assert verdict.passed
    assert verdict.printed == "x" * 4000
    assert capsys.readouterr().out == ""


def test_inputs_are_copies():
    def greedy(items, num_parts):
        parts = right(list(items), num_parts)
        items.clear()
        return parts

    fixed = Case("2 items", ([0, 1], 2), [[0], [1]])
    lenient = by_cases([fixed], changes=True)
    exercise = Exercise(name="99.keep", title="", judge=lenient, mistakes=(), hints=("a", "b", "c"))
    assert judged(exercise, greedy).passed
    assert judged(exercise, greedy).passed
    assert fixed.args == ([0, 1], 2)
    strict = Exercise(name="99.keep", title="", judge=by_cases([fixed]), mistakes=(), hints=("a", "b", "c"))
    verdict = judged(strict, greedy)
    assert verdict.status == "not yet"
    assert "your code changed what it was given: `items` had 2 items and has 0 now" in verdict.message


@pytest.mark.parametrize(
    ("leave", "said"),
    [
        (lambda: torch.set_grad_enabled(False), "left gradients switched off"),
        (lambda: torch.set_default_dtype(torch.float64), "left the default dtype at torch.float64"),
        (lambda: os.chdir("/"), "left the working folder at '/'"),
        (lambda: os.environ.update(COURSE_LEFT="1"), "left the environment changed"),
        (lambda: setattr(torch, "equal", right), "left torch.equal replaced by its own"),
    ],
)
def test_a_switch_that_a_right_answer_leaves_turned_is_named_and_put_back(leave, said):
    here, equal = os.getcwd(), torch.equal

    def answer(items, num_parts):
        leave()
        return right(items, num_parts)

    verdict = judged(SPLIT, answer)
    assert verdict.status == "not yet"
    assert f"The results are right, and your code {said}" in verdict.message
    assert (os.getcwd(), torch.equal, "COURSE_LEFT" in os.environ) == (here, equal, False)
    assert judged(SPLIT, right).passed


def test_an_error_of_another_kind_is_not_the_named_mistake():
    def example(items, num_parts):
        return items[num_parts * 100]

    def other(items, num_parts):
        raise IndexError("no such rank")

    exercise = Exercise(
        name="99.error", title="", judge=SPLIT.judge,
        mistakes=(Mistake("points-behind", "You point behind the end.", example),), hints=("a", "b", "c"),
    )  # fmt: skip
    assert judged(exercise, example).mistake == "points-behind"
    assert judged(exercise, other).mistake is None


def test_random_states_and_defaults_are_put_back():
    import numpy as np

    def answer(items, num_parts):
        random.seed(1), np.random.seed(1), torch.manual_seed(1)
        torch.set_default_dtype(torch.float64)
        torch.set_grad_enabled(False)
        return right(items, num_parts)

    random.seed(7), np.random.seed(7), torch.manual_seed(7)
    expected = random.random(), np.random.rand(), torch.rand(1).item()
    random.seed(7), np.random.seed(7), torch.manual_seed(7)
    assert judged(SPLIT, answer).status == "not yet"  # for the switches; random numbers may be drawn
    assert torch.get_default_dtype() is torch.float32
    assert torch.is_grad_enabled()
    assert (random.random(), np.random.rand(), torch.rand(1).item()) == expected


def test_a_forbidden_call_is_told_even_when_the_values_are_right():
    verdict = judged(SPLIT, lambda items, num_parts: right(torch.tensor(items).tensor_split(1)[0].tolist(), num_parts))
    assert verdict.status == "forbidden"
    assert "`torch.Tensor.tensor_split`" in verdict.message


def test_a_forbidden_name_in_code_that_no_case_reaches_is_told():
    def answer(items, num_parts):
        return torch.tensor_split(items, num_parts) if num_parts > 99 else right(items, num_parts)

    assert judged(SPLIT, answer).status == "forbidden"


def test_an_unknown_exercise_is_blocked_and_names_the_nearest(monkeypatch):
    verdict = check("no such", right)
    assert verdict.status == "blocked"
    assert "no such" in verdict.message


def test_a_generator_is_taken_as_its_items():
    def answer(items, num_parts):
        yield from right(items, num_parts)

    assert judged(dataclasses.replace(SPLIT, may_yield=True), answer).passed
    assert "it has a `yield` in it" in judged(SPLIT, answer).message


def test_a_judge_of_values():
    exercise = Exercise(
        name="99.bytes",
        title="Bytes",
        judge=by_value(lambda: 12, label="the bytes"),
        mistakes=(Mistake("one-copy", "Adam keeps two more numbers.", 4),),
        hints=("a", "b", "c"),
        is_value=True,
    )
    assert judged(exercise, 12.0).passed
    assert judged(exercise, torch.tensor(12)).passed
    assert judged(exercise, 4).mistake == "one-copy"
    assert judged(exercise, 5).message == "With the bytes: expected 12, got 5."
    assert judged(exercise, lambda: 12).status == "not yet"
    assert judged(exercise, None).message == "None was given, where a value is asked for."


def test_a_judge_of_its_own_may_let_exceptions_through():
    def judge(answer, forbidden):
        return Evidence((AnswerOutcome("sum", 3, answer(1, 2), difference="" if answer(1, 2) == 3 else "no"),))

    exercise = Exercise(name="99.own", title="", judge=judge, mistakes=(), hints=("a", "b", "c"))
    assert judged(exercise, lambda a, b: a + b).passed
    assert judged(exercise, lambda a, b: a / 0).status == "raised"
    assert judged(exercise, lambda a, b: 0).status == "not yet"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": "split"}, "two digits"),
        ({"hints": ("a", "b")}, "exactly three"),
        ({"mistakes": (Mistake("a", "", 1), Mistake("a", "", 2))}, "share a name"),
    ],
)
def test_a_bad_exercise_is_refused(change, words):
    fields = {"name": "99.a", "title": "", "judge": by_value(1), "mistakes": (), "hints": ("a", "b", "c")}
    with pytest.raises(ValueError, match=words):
        Exercise(**{**fields, **change})


def test_the_html_has_words_a_sign_and_no_raw_markup():
    verdict = judged(SPLIT, lambda items, num_parts: "<script>")
    page = verdict._html()
    assert "✗ 99.split: not yet" in page
    assert "<script>" not in page
    assert "var(--jp-content-font-color1" in page


def test_a_hint_s_link_cannot_leave_its_attribute():
    from course_lib.learn.checks.hints import HintNote

    assert "href='x&#x27; y=&#x27;.ipynb'" in HintNote("a title", "a text", "x' y='.ipynb")._html()


def test_stars_and_backquotes_are_set_and_sums_are_not():
    from course_lib.forms.show import escape

    assert escape("four *starts* of `a*b*c`") == "four <em>starts</em> of <code>a*b*c</code>"
    assert escape("2*3*4 and 2 * 3 * 4 < 25") == "2*3*4 and 2 * 3 * 4 &lt; 25"
    assert escape("an odd ` stays") == "an odd ` stays"


def test_an_alarm_of_somebody_else_goes_on():
    import signal

    rung = []
    before = signal.signal(signal.SIGALRM, lambda number, frame: rung.append(number))
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        assert judged(SPLIT, right).passed
        wait_until(lambda: rung, "the alarm rings")
        assert rung == [signal.SIGALRM]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_arguments_that_do_not_fit_are_not_blamed_on_a_line_of_the_judge():
    def ring(me):
        return me

    verdict = check("02.ring", ring)
    assert "takes 1 positional argument but 2 were given" in verdict.message
    assert "on line" not in verdict.message


@pytest.mark.parametrize("name", [[], None, 7, {"02.ring"}])
def test_what_is_no_name_of_an_exercise_gets_a_sentence(name):
    assert "There is no exercise" in str(hint(name))


def test_what_is_held_after_the_call_and_a_seed_are_told():
    held = []

    def holds(values):
        held.append(values)
        return float(values.sum())

    def seeds(values):
        torch.manual_seed(1)
        return float(values.sum())

    def right(values):
        return float(values.sum())

    sums = dataclasses.replace(SPLIT, mistakes=(), judge=by_cases([Case("two numbers", lambda: (torch.ones(2),), 2.0)]))
    assert judged(sums, right).passed
    assert "still holds a tensor that it was given" in judged(sums, holds).message
    assert "seeds the random numbers" in judged(sums, seeds).message


def test_a_result_that_holds_an_input_is_the_callers():
    def gives_it_back(values):
        return [values, values]

    judge = by_cases([Case("two numbers", lambda: (torch.ones(2),), lambda values: [values, values])])
    assert judged(dataclasses.replace(SPLIT, mistakes=(), judge=judge), gives_it_back).passed


def test_a_mistake_that_nothing_tells_is_refused():
    with pytest.raises(ValueError, match="mistake 'vague': give recognise, or an example"):
        Mistake("vague", "Something is wrong.")


def test_a_view_of_an_input_is_the_callers_and_what_is_kept_beside_it_is_told():
    kept = []

    def keeps_it(values):
        kept.append(values)
        return values[:1]

    judge = by_cases([Case("two numbers", lambda: (torch.ones(2),), lambda values: values[:1])])
    exercise = dataclasses.replace(SPLIT, mistakes=(), judge=judge)
    assert judged(exercise, lambda values: values[:1]).passed
    assert "still holds a tensor" in judged(exercise, keeps_it).message
