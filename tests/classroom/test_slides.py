"""Slides, notes and handout of each class plan: they agree with the lessons, and the room sees no answer."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from lessons import test_pages_hold_no_answer as pages

from course_lib import classroom
from course_lib.base.paths import project_root
from course_lib.classroom.slides.class_plan import ClassPlan, ClassPlanRow, class_plan, class_plans
from course_lib.classroom.slides.deck import deck_of
from course_lib.classroom.slides.pages import handout_page, notes_page, slides_page
from course_lib.classroom.slides.part_material import SlidePicture, picture_of_part, slide_question, speaker_texts
from course_lib.learn import exercises

ROOT = project_root()
PLANS = class_plans(ROOT)
BY_TITLE = pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.title)


def words_of(page: str) -> str:
    """The words of a page, without its signs, its style and its pictures."""
    bare = re.sub(r"<style>.*?</style>|src='data:[^']*'|<[^>]*>", " ", page, flags=re.DOTALL)
    return " ".join(pages.words(bare))


def plan_of(*rows: ClassPlanRow) -> ClassPlan:
    return ClassPlan("A plan", sum(row.minutes for row in rows), rows)


# --- What the room sees -------------------------------------------------------------------------------------------


@BY_TITLE
def test_every_row_has_a_slide_and_every_stop_its_question(plan: ClassPlan) -> None:
    deck = deck_of(plan, ROOT)
    asked = [name for row in plan.rows for name in row.asks]
    assert [slide.question for slide in deck if slide.question] == asked
    assert len(deck) == 1 + sum(len(row.asks) or 1 for row in plan.rows)
    for slide in deck:
        if slide.question:
            assert slide.texts == (exercises.prediction(slide.question).question,)
            assert slide.choices or slide.unit


@BY_TITLE
def test_neither_slides_nor_handout_hold_what_the_speaker_is_told(plan: ClassPlan) -> None:
    deck = deck_of(plan, ROOT)
    shown = words_of(slides_page(plan.title, deck, ROOT)) + " | " + words_of(handout_page(plan.title, deck, ROOT))
    notes = words_of(notes_page(plan.title, deck))
    told = {text for slide in deck if slide.question for text in speaker_texts(slide.question, ROOT)}
    assert told or plan.title != "A second meeting: how DDP works", "of 04.buckets the instructor's page tells"
    for text in told:
        answers = [one for one in re.split(r"(?<=[.?!])\s+", text)[1:] if len(pages.words(one)) >= 4]
        assert answers
        for one in answers:
            assert " ".join(pages.words(one)) not in shown
            assert " ".join(pages.words(one)) in notes


@BY_TITLE
def test_no_told_sentence_of_a_lesson_is_shown(plan: ClassPlan) -> None:
    deck = deck_of(plan, ROOT)
    shown = pages.phrases(words_of(slides_page(plan.title, deck, ROOT)))
    for lesson in sorted({slide.question[:2] for slide in deck if slide.question}):
        for text in pages.told_sentences(lesson):
            assert not pages.phrases(text) & shown, text


def test_what_stands_behind_a_question_of_a_plan_is_for_the_speaker() -> None:
    row = ClassPlanRow(10, "stop", "which of the cuts sends most often? Every layer", "")
    _, slide = deck_of(plan_of(row), ROOT)
    assert slide.texts == ("which of the cuts sends most often?",)
    assert "Every layer" in slide.notes[0]


def test_a_part_shows_its_promise_and_its_first_picture_and_not_what_is_said_before_it() -> None:
    row = ClassPlanRow(
        75, "[04a](../../notebooks/x.ipynb)", "works alone; say before it that the answer is two", "leave it out"
    )
    _, slide = deck_of(plan_of(row), ROOT)
    assert slide.title.startswith("04a · ")
    assert slide.picture == picture_of_part("04a", ROOT)
    assert "the answer is two" not in slides_page("A plan", [slide], ROOT)
    assert slide.notes[0] == "The room: works alone; say before it that the answer is two."
    assert slide.notes[-1] == "When behind: leave it out."


def test_a_question_has_the_picture_above_it_in_its_section() -> None:
    asked = slide_question("00.shared", ROOT)
    assert asked.picture is not None
    assert (ROOT / asked.picture.file).is_file()
    source = (ROOT / "notebooks" / "src" / "00_start_here.py").read_text()
    section = source[: source.index('ask("00.shared")')].rpartition("\n# ## ")[2]
    assert asked.picture.file in section
    assert slide_question("04.flag", ROOT).picture is None  # there is one on the page, in another section


# --- The pages ----------------------------------------------------------------------------------------------------


@BY_TITLE
def test_pages_need_nothing_beside_them_and_run_nothing(plan: ClassPlan) -> None:
    deck = deck_of(plan, ROOT)
    for page in (slides_page("A", deck, ROOT), notes_page("A", deck), handout_page("A", deck, ROOT)):
        assert "<script" not in page
        assert not re.findall(r"(?:src|href)='(?!data:|#)", page)
        assert all(re.search(r"alt='[^']+'", tag) for tag in re.findall(r"<img[^>]*>", page))


def test_links_lead_from_slide_to_slide() -> None:
    page = slides_page(
        "A", deck_of(plan_of(ClassPlanRow(5, "arrive", "logs in", ""), ClassPlanRow(5, "close", "", "")), ROOT), ROOT
    )
    sections = page.split("<section")[1:]
    assert ["before</a>" in one for one in sections] == [False, True, True]
    assert ["next</a>" in one for one in sections] == [True, True, False]
    assert set(re.findall(r"href='#(\w+)'", page)) <= set(re.findall(r"id='(\w+)'", page))


def test_a_picture_that_is_gone_leaves_its_words(tmp_path: Path) -> None:
    (_, slide) = deck_of(plan_of(ClassPlanRow(75, "[04a](x)", "works alone", "")), ROOT)
    assert isinstance(slide.picture, SlidePicture)
    page = slides_page("A", [slide], tmp_path)
    assert "<img" not in page
    assert slide.picture.alt in page


# --- What is wrong ------------------------------------------------------------------------------------------------


def test_a_plan_is_named_by_some_of_its_words() -> None:
    assert class_plan("half a day", ROOT).minutes == 210
    with pytest.raises(ValueError, match=r"there is no plan 'half a year'.*The nearest is 'Half a day"):
        class_plan("half a year", ROOT)


@pytest.mark.parametrize("text", [None, "# Plans\n\nNone yet.\n"])
def test_a_page_without_plans_gets_a_sentence(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "docs" / "instructor").mkdir(parents=True)
        (tmp_path / "docs" / "instructor" / "plans.md").write_text(text)
    with pytest.raises(ValueError, match=r"plans\.md (cannot be read|has no plan)"):
        class_plans(tmp_path)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (ClassPlanRow(5, "stop", '`ask("04.nowhere")`', ""), "no lesson asks '04.nowhere'"),
        (ClassPlanRow(5, "[99a](x)", "works alone", ""), "there is no part '99a'"),
    ],
)
def test_a_plan_that_names_what_is_not_there_gets_a_sentence(row: ClassPlanRow, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        deck_of(plan_of(row), ROOT)


def test_the_commands_write_pages_and_over_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert classroom.main(["slides", "half", "a", "day"]) == 0
    assert classroom.main(["handout", "half a day", "--out", "paper.html"]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"slides.html", "slides-notes.html", "paper.html"}
    assert "Keep it off the projector" in capsys.readouterr().out
    assert classroom.main(["slides", "half a day"]) == 2
    assert classroom.main(["handout", "half a day", "--out", "paper.html"]) == 2
    assert capsys.readouterr().err.count("is there already, and nothing is written over") == 2
    assert classroom.main(["handout", "half a day", "--out", "no/such.html"]) == 2
    assert "there is no folder no" in capsys.readouterr().err
    assert classroom.main(["slides"]) == 2
    assert "there is no plan ''" in capsys.readouterr().err
