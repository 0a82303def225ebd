"""Problems on paper: judged at 5 %, numbers that stay while a problem is open, the way when it is over."""

from __future__ import annotations

import json

import pytest

from course_lib.learn import exercises, problems
from course_lib.learn.catalogue.problem_spec import PaperProblem, Posed, Wrong, problem
from course_lib.learn.paper import problem_form
from course_lib.learn.paper.judge import is_right, sentence_on
from course_lib.learn.paper.sheet import ProblemSheet
from course_lib.learn.records import store as store_module


@problem("99.sum", "A sum", unit="GB")
def a_sum(draw):
    count = draw.choice((2, 3, 5))
    return Posed(
        text=f"What do {count} pieces of 4 GB take?",
        value=4.0 * count,
        way=(f"{count} × 4 GB = {4 * count} GB.",),
        slips=(Wrong(4.0, "That is *one* piece."), Wrong(4.1 * count, "Too near to be told apart.")),
        sources=("Somebody's page.",),
        beside="A run took as much.",
    )


@pytest.fixture(autouse=True)
def lesson(monkeypatch):
    monkeypatch.setattr(exercises, "problems_of", lambda lesson: (a_sum,) if lesson == "99" else ())
    monkeypatch.setattr(exercises, "lesson_numbers", lambda: ("99",))


@pytest.fixture
def kept(monkeypatch, tmp_path):
    """A learner whose work is kept."""
    monkeypatch.setattr(store_module, "_is_off", lambda: False)
    monkeypatch.setenv("COURSE_HOME", str(tmp_path))
    return tmp_path / "data" / "progress.jsonl"


def _right(found) -> str:
    return f"{found.drawn(a_sum).value} GB"


# --- The judge --------------------------------------------------------------------------------------------------------

TEN = Posed(text="", value=10.0, way=(), slips=(Wrong(4.0, "That is one piece."), Wrong(10.9, "Near.")))


@pytest.mark.parametrize(("value", "right"), [(10, True), (9.5, True), (10.5, True), (9.49, False), (10.51, False)])
def test_five_per_cent_are_right_and_no_more(value, right):
    assert is_right(TEN, value) is right


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (10.2, "✓ Right: 10 GB."),
        (4.04, "✗ Not 4.04 GB. That is one piece."),
        (10.9, "✗ Not 10.9 GB. That is too much, by less than a factor of two."),  # a slip too near to be told
        (0, "✗ Not 0 GB. The answer is above zero."),
        (-10, "above zero"),
        (10_000, "the power of ten is not"),
        (0.00001, "the power of ten is not"),
        (0.1, "too little, by a factor of more than ten"),
        (30, "too much, by a factor between two and ten"),
        (6, "too little, by less than a factor of two"),
    ],
)
def test_a_wrong_answer_is_told_without_the_right_one(value, words):
    said = sentence_on(TEN, value, "GB")
    assert words in said
    assert said.startswith("✓") or " 10 GB" not in said


def test_a_share_that_was_meant_in_per_cent_is_told():
    assert "a quarter is 25" in sentence_on(Posed(text="", value=25.0, way=()), 0.25, "%")


# --- The sheet --------------------------------------------------------------------------------------------------------


def test_a_problem_has_the_same_numbers_for_the_same_seed_and_others_for_others():
    assert a_sum.drawn(7) == a_sum.drawn(7)
    assert len({a_sum.drawn(seed).text for seed in range(20)}) == 3


def test_problems_are_text_without_a_front_end(capsys):
    found = problems("99")
    assert capsys.readouterr().out == repr(found) + "\n"
    assert "1. A sum, in GB  [99.sum]" in repr(found)


def test_a_lesson_without_problems_is_told():
    with pytest.raises(ValueError, match="Lesson 98 has no problems on paper; these have: 99"):
        problems("98")


def test_a_name_that_is_none_is_told():
    with pytest.raises(ValueError, match=r"no problem 'all'; it has 99\.sum"):
        problems("99").answer("all", 1)


def test_what_is_no_number_is_told_and_is_no_try():
    found = problems("99")
    assert "is no number" in repr(found.answer("sum", "much"))
    assert "asked for in GB" in repr(found.answer("sum", "3 s"))
    assert found.standing["99.sum"].tries == 0


def test_a_right_answer_is_kept_with_its_numbers_and_found_again(kept):
    found = problems("99")
    assert "That is *one* piece" in repr(found.answer("sum", "4"))
    assert "✓ Right" in repr(found.answer("sum", _right(found)))
    again = ProblemSheet("99", (a_sum,))
    assert again.standing == found.standing
    assert (again.standing["99.sum"].tries, again.standing["99.sum"].is_right) == (2, True)
    events = [json.loads(line) for line in kept.read_text().splitlines()]
    assert [event["event"] for event in events] == ["problem", "problem"]


def test_looking_at_problems_is_no_work_that_is_kept(kept):
    problems("99", ways=True)
    assert not kept.exists()


def test_numbers_are_a_learners_own(kept, monkeypatch):
    seeds = set()
    for name in "abcdefgh":
        monkeypatch.setenv("COURSE_HOME", str(kept.parent / name))
        first, second = (ProblemSheet("99", (a_sum,)).standing["99.sum"].seed for _ in range(2))
        assert first == second
        seeds.add(first)
    assert len(seeds) == 8


def test_a_user_without_a_name_has_numbers_too(kept, monkeypatch):
    def nobody():
        raise OSError("no user")

    monkeypatch.setattr("getpass.getuser", nobody)
    assert ProblemSheet("99", (a_sum,)).standing["99.sum"].seed >= 0


def test_the_way_ends_a_try_and_other_numbers_open_it(kept):
    found = problems("99")
    way = found.way("sum")
    assert "1. " in repr(way)
    assert "Measured: A run took as much.\nSource: Somebody's page." in repr(way)
    assert "has been shown" in repr(found.answer("sum", _right(found)))
    again = ProblemSheet("99", (a_sum,)).standing["99.sum"]
    assert (again.is_right, again.is_shown) == (False, True)
    before = found.drawn(a_sum).text
    found.anew("sum")
    assert found.drawn(a_sum).text != before
    again = ProblemSheet("99", (a_sum,))
    assert again.drawn(a_sum).text == found.drawn(a_sum).text
    assert not again.standing["99.sum"].is_over


def test_a_solved_problem_stays_solved_when_its_way_is_looked_at(kept):
    found = problems("99")
    found.answer("sum", _right(found))
    found.way("sum")
    assert "✓ Right" in repr(found.answer("sum", _right(found)))
    assert ProblemSheet("99", (a_sum,)).standing["99.sum"].is_right


@pytest.mark.parametrize("line", ['"seed": "x"', '"seed": null', '"tries": "x", "seed": 3', '"seed": true'])
def test_a_foreign_line_in_the_record_spoils_nothing(kept, line):
    kept.parent.mkdir(parents=True)
    kept.write_text(f'{{"event": "problem", "name": "99.sum", {line}}}\n')
    assert ProblemSheet("99", (a_sum,)).drawn(a_sum).value in (8.0, 12.0, 20.0)


def test_a_problem_with_one_draw_alone_can_be_drawn_anew():
    @problem("99.one", "One", unit="GB")
    def one(draw):
        return Posed(text="Always this.", value=1.0, way=())

    sheet = ProblemSheet("99", (one,))
    sheet.draw_anew(one)
    assert sheet.drawn(one).value == 1.0


def test_all_ways_are_there_for_who_reads():
    text = repr(problems("99", ways=True))
    assert "1. A sum" in text
    assert "GB.\n   Measured: A run took as much.\n   Source: Somebody's page." in text
    assert "<details><summary>The way</summary><ol" in problems("99", ways=True)._html()


# --- The form ---------------------------------------------------------------------------------------------------------


def test_the_form_judges_shows_the_way_and_draws_anew():
    found = problems("99")
    form = problem_form.ProblemForm(found)
    (row,) = form.rows
    row.check.click()
    assert "Type an answer first" in row.feedback.value
    row.box.value = "4 GB"
    row.check.click()
    assert "<em>one</em> piece" in row.feedback.value
    assert row.way.value == ""
    row.box.value = "much"
    row.check.click()
    assert "is no number" in row.feedback.value
    row.box.value = _right(found)
    row.check.click()
    assert "✓ Right" in row.feedback.value
    assert "<li>" in row.way.value
    assert "1 of 1 problems solved" in form.count.value
    before = row.text.value
    row.anew.click()
    assert row.text.value != before
    assert (row.box.value, row.way.value) == ("", "")
    assert "0 of 1" in form.count.value
    row.show.click()
    assert "<li>" in row.way.value


def test_controls_have_names_that_tell_them_apart():
    row = problem_form.OneProblem(ProblemSheet("99", (a_sum,)), 3, a_sum)
    assert row.box.description == "Answer 3, in GB:"
    assert [one.description for one in (row.check, row.show, row.anew)] == [
        "Check answer 3", "Show the way of 3", "Other numbers for 3",
    ]  # fmt: skip


def test_what_a_problem_says_is_text_and_no_html():
    bad = PaperProblem("99.bad", "<b>x</b>", "GB", lambda draw: Posed(text="<i>a</i>", value=1.0, way=("<s>",)))
    row = problem_form.OneProblem(ProblemSheet("99", (bad,)), 1, bad)
    row.show.click()
    assert "<b>" not in row.text.value
    assert "<i>" not in row.text.value
    assert "<s>" not in row.way.value
