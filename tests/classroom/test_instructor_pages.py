"""The pages for instructors: a page for each lesson, plans that add up, and nothing named that is not there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from course_lib.classroom import WORDS
from course_lib.cli import VERBS
from course_lib.learn.exercises import exercises_of
from course_lib.lessons.info import lesson_info, source_files

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs" / "instructor"
PAGES = sorted(DOCS.rglob("*.md"))
LESSONS = sorted((DOCS / "lessons").glob("*.md"))
SOURCES = source_files(ROOT)
MINUTES = {(info := lesson_info(source)).label: info.minutes for source in SOURCES}
MOST_LINES = 70  # and a few for each build, which has a section
FOR_A_PART, PARTS_OF_A_LESSON = 5, 4  # more lines for each part beyond
FOR_A_BUILD = 10


def text_of(label: str) -> str:
    """The source of one part (04a), or of all parts of a lesson (04), as people read it."""
    files = [file for file in SOURCES if file.stem.split("_")[0].startswith(label)]
    assert files, f"there is no lesson {label}"
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


def relative(page: Path) -> str:
    return str(page.relative_to(DOCS))


def test_every_lesson_has_its_page_and_every_page_its_lesson():
    assert [page.stem for page in LESSONS] == sorted({label[:2] for label in MINUTES})


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_links_lead_somewhere(page):
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text())
    missing = [one for one in targets if "://" not in one and not (page.parent / one).exists()]
    assert not missing


@pytest.mark.parametrize("page", LESSONS, ids=relative)
def test_a_page_is_about_a_screen(page):
    text = page.read_text()
    parts = len(set(re.findall(rf"notebooks/({page.stem}[a-z])_", text)))
    most = MOST_LINES + FOR_A_BUILD * text.count("## The build") + FOR_A_PART * max(0, parts - PARTS_OF_A_LESSON)
    assert len(text.splitlines()) <= most


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_questions_and_checks_stand_in_the_lessons(page):
    for verb, name in re.findall(r"`(ask|reveal|check|quiz|hint)\(\"([\w.]+)\"", page.read_text()):
        call = f'{verb}("{name}"'
        assert call in text_of(name[:2]), f"{page.name}: no lesson says {call})"
        if page in LESSONS:
            assert name[:2] == page.stem, f"{page.name} is not about {name}"


@pytest.mark.parametrize("page", LESSONS, ids=relative)
def test_named_mistakes_are_those_of_the_check(page):
    """A row "| `check("00.mean")` *mean-of-means* | ..." names mistakes of that exercise's catalogue."""
    known = {one.name: {mistake.name for mistake in one.mistakes} for one in exercises_of(page.stem)}
    rows = re.findall(r'^\| `check\("([\w.]+)"\)` ([^|]*)\|', page.read_text(), re.MULTILINE)
    assert rows, f"{page.name} names no mistake"
    for exercise, names in rows:
        assert set(re.findall(r"\*([\w-]+)\*", names)) <= known[exercise], f"{page.name}: {exercise}"


@pytest.mark.parametrize("page", LESSONS, ids=relative)
def test_parts_and_minutes_are_those_of_the_first_lines(page):
    """The line below the title: [04a](...) 75 min · [04b](...) 75 min."""
    told = re.findall(r"\[(\d\d[a-z]?)\]\(\.\./\.\./\.\./notebooks/([\w.]+)\) (\d+) min", page.read_text())
    assert {label: int(minutes) for label, _, minutes in told} == {
        label: minutes for label, minutes in MINUTES.items() if label.startswith(page.stem)
    }
    for label, file, _ in told:
        assert file.startswith(f"{label}_")


@pytest.mark.parametrize("page", LESSONS, ids=relative)
def test_sections_that_may_be_left_out_exist(page):
    """Under "Short of time" a line begins with a part, and names its sections in italics."""
    skip = re.search(r"## Short of time\n(.*?)(?=\n## |\Z)", page.read_text(), re.DOTALL)
    assert skip, f"{page.name} does not say what to leave out"
    rows = re.findall(r"^- \*\*(\d\d[a-z]?)\*\*(.*?)(?=^- |\Z)", skip.group(1), re.MULTILINE | re.DOTALL)
    for label, line in rows:
        for section in re.findall(r"\*([A-Z][^*\n]+)\*", line.replace("\n  ", " ")):
            assert has_section(label, section), f"{page.name}: {label} has no section {section!r}"


def has_section(label: str, section: str) -> bool:
    return re.search(rf"^# #+ {re.escape(section)}\s*$", text_of(label), re.MULTILINE) is not None


def source_of(home: str) -> str:
    """The text of a module or package that does a verb of `course`, with the rooms that it is made of."""
    place = ROOT / home.replace(".", "/")
    files = place.rglob("*.py") if place.is_dir() else [place.with_suffix(".py"), *place.parent.glob("*.py")]
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


def unknown_in(line: str) -> list[str]:
    """What of the words after `course` there is not: a verb, a word of `course class`, an option."""
    verb, *words = line.split()
    if verb not in VERBS:
        return [verb]
    known = source_of(VERBS[verb].home)
    wrong = [word for word in words if word.startswith("--") and word.split("=")[0] not in known]
    return wrong + [word for word in words[:1] if verb == "class" and word not in WORDS]


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_commands_exist(page):
    lines = re.findall(r"`(?:\./)?course ([^`]*)`", page.read_text())
    assert {line: wrong for line in lines if (wrong := unknown_in(line))} == {}


def test_an_invented_command_is_found_out():
    assert unknown_in("class board FOLDER --watch") == []
    assert unknown_in("class bored FOLDER") == ["bored"]
    assert unknown_in("lab --undo") == ["--undo"]
    assert unknown_in("teach") == ["teach"]


# --- what the course says, and prints -------------------------------------------------------------------------

LIBRARY = "\n".join(file.read_text(encoding="utf-8") for file in ROOT.glob("course_lib/**/*.py"))
SENTENCES = re.sub(r"[\"']\s*\n\s*[rf]*[\"']", "", LIBRARY)  # a text that stands on several lines becomes one


def said_nowhere(phrase: str) -> list[str]:
    """The pieces of a phrase that no text of the course has; names and numbers in it are cut out."""
    pieces = re.split(r"\.\.\.|\d+|FOLDER|SIGKILL|notebooks/\S+", phrase)
    return [piece for piece in pieces if len(piece.strip()) > 3 and piece.strip() not in SENTENCES]


def test_what_the_course_is_said_to_say_it_says():
    page = (DOCS / "when-it-breaks.md").read_text()
    symptoms = re.findall(r"^\| ([^|]*) \|", page, re.MULTILINE)
    phrases = [phrase for cell in symptoms for phrase in re.findall(r"\*([^*]+)\*", cell)]
    assert len(phrases) > 15
    assert {phrase: wrong for phrase in phrases if (wrong := said_nowhere(phrase))} == {}


def test_an_invented_sentence_is_found_out():
    assert said_nowhere("rank 2 of 4 failed: ...") == []
    assert said_nowhere("rank 2 of 4 is unwell") == [" is unwell"]


def numbers_in(text: str) -> set[str]:
    """Numbers that somebody has measured or computed: with a fraction, or before a unit; "98 %" as "98%"."""
    text = " ".join(text.split())  # a line may end between a number and its unit
    found = re.findall(r"\d[\d,]*(?:\.\d+| (?:%|KiB|MiB|GiB|years|hours)(?!\w))", text)
    return {number.replace(" %", "%") for number in found}


@pytest.mark.parametrize("page", LESSONS, ids=relative)
def test_numbers_are_those_of_the_solved_copies(page):
    solved = "".join(
        file.read_text(encoding="utf-8").replace(" %", "%")
        for file in (ROOT / "notebooks" / "solutions").glob(f"{page.stem}*.ipynb")
    )
    assert [number for number in sorted(numbers_in(page.read_text())) if number not in solved] == []


def told_by(name: str) -> str:
    """What the cell with reveal("NAME") has printed in the solved copy."""
    for file in (ROOT / "notebooks" / "solutions").glob(f"{name[:2]}*.ipynb"):
        for cell in json.loads(file.read_text(encoding="utf-8"))["cells"]:
            if f'reveal("{name}"' in "".join(cell["source"]) and cell["cell_type"] == "code":
                return json.dumps(cell["outputs"])
    raise AssertionError(f'no solved copy says reveal("{name}"')


@pytest.mark.parametrize("page", LESSONS, ids=relative)
def test_a_number_stands_in_the_cell_that_is_named_for_it(page):
    """ "A quarter." 98 % measured (cell of `reveal("11.stages")`): the 98 is in the outputs of this cell."""
    text = " ".join(page.read_text().split())
    for before, name in re.findall(r'([^.?"]*(?:\.\d[^.?"]*)*)\(cell of `reveal\("([\w.]+)"\)`', text):
        for number in numbers_in(before):
            assert re.sub(r"[^\d.,]", "", number) in told_by(name), f"{page.name}: {number}, {name}"


# --- plans ----------------------------------------------------------------------------------------------------


Row = list[str]  # minutes, what, the room, when behind


def plans(text: str) -> list[tuple[str, int, list[Row]]]:
    """Of each plan its title, the minutes in it, and its rows."""
    plan = re.compile(r"^## ([^\n]*) \((\d+) minutes\)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
    return [(title, int(total), rows_of(body)) for title, total, body in plan.findall(text)]


def rows_of(body: str) -> list[Row]:
    lines = re.findall(r"^\| *\d.*$", body, re.MULTILINE)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


PLANS = plans((DOCS / "plans.md").read_text())


def wrong_with(total: int, rows: list[Row]) -> list[str]:
    """What does not hold of a plan: its sum, a part's minutes, a section."""
    wrong = []
    if sum(int(row[0]) for row in rows) != total:
        wrong.append(f"the rows make {sum(int(row[0]) for row in rows)} minutes, not {total}")
    for minutes, what, *_ in rows:
        part = re.match(r"\[(\d\d[a-z]?)\]\([^)]*\)(?:, up to \*(.*)\*)?$", what)
        if part is None:
            continue
        label, end = part.groups()
        if end is None and int(minutes) != MINUTES[label]:
            wrong.append(f"{label} takes {MINUTES[label]} minutes, not {minutes}")
        if end is not None and not (int(minutes) < MINUTES[label] and has_section(label, end)):
            wrong.append(f"{label} has no section {end!r}, or is shorter than {minutes} minutes")
    return wrong


def test_there_are_plans_for_90_minutes_half_a_day_and_two_days():
    assert [total for _, total, _ in PLANS] == [90, 90, 210, 420, 420]


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan[0])
def test_a_plan_adds_up_and_agrees_with_the_lessons(plan):
    assert not wrong_with(*plan[1:])


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan[0])
def test_what_a_plan_leaves_out_is_there(plan):
    for _, what, _, behind in plan[2]:
        label = re.match(r"\[(\d\d[a-z]?)\]", what)
        for section in re.findall(r"leave out \*(.*?)\*", behind):
            assert label, f"no lesson in {what}"
            assert has_section(label.group(1), section), section


def test_a_wrong_plan_is_found_out():
    right = [["5", "arrive", "", ""], [str(MINUTES["00"]), "[00](x)", "", ""]]
    assert wrong_with(MINUTES["00"] + 5, right) == []
    assert "the rows make" in wrong_with(90, right)[0]
    shorter = [["5", "arrive", "", ""], ["60", "[00](x)", "", ""]]
    assert wrong_with(65, shorter) == [f"00 takes {MINUTES['00']} minutes, not 60"]
    assert wrong_with(20, [["20", "[05a](x), up to *Nowhere*", "", ""]])
