"""README.md and the pages behind it tell the truth: paths, lessons, links, commands, and the picture."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from course_lib.authoring.notebooks.writing.readme import lesson_table, renew_pages, stale_pages
from course_lib.authoring.pictures.front import FRONT, is_front_fresh, words_in, words_now
from course_lib.learn.builds.catalogue import BUILDS
from course_lib.learn.checks.lesson_index import places
from course_lib.lessons.info import LessonError, LessonInfo, lessons, tour
from course_lib.lessons.ways import MORE_PATHS, PATHS, Way, path_sections, path_table

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))
INFO = LessonInfo("07", "pipeline", "Pipelines", "You fill\na bubble.", 60, 4, "cpu")


def test_the_written_blocks_are_up_to_date():
    assert stale_pages(ROOT) == [], "run `course build`"


def test_a_stale_block_is_renewed_and_the_rest_left_alone(tmp_path):
    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs" / "lessons.md"
    page.write_text("before\n<!-- lessons: begin -->\nold\n<!-- lessons: end -->\nafter\n")
    assert stale_pages(tmp_path) == ["docs/lessons.md"]
    assert renew_pages(tmp_path) == ["docs/lessons.md"]
    assert renew_pages(tmp_path) == stale_pages(tmp_path) == []
    new = page.read_text()
    assert new.startswith("before\n")
    assert new.endswith("after\n")
    assert "old" not in new


def test_a_page_without_its_marks_is_named(tmp_path):
    (tmp_path / "README.md").write_text("no marks")
    with pytest.raises(ValueError, match=r"README.md holds no <!-- paths: begin -->"):
        stale_pages(tmp_path)


def test_a_line_of_the_map_says_what_a_learner_asks():
    line = lesson_table([INFO]).splitlines()[-1]
    assert "[07 · Pipelines](../notebooks/07_pipeline.ipynb)" in line
    assert "You fill a bubble. | 60 | 4 of 5 | cpu |" in line


def test_a_path_adds_up_the_minutes_of_its_parts():
    other = LessonInfo("08", "cut", "Cuts", "You cut.", 75, 4, "cpu")
    lines = path_table([INFO, other], [Way("an hour", "a bubble", ("07",)), Way("all", "both")]).splitlines()
    assert lines[-2] == "| an hour | a bubble | [07](notebooks/07_pipeline.ipynb) | 1\N{NO-BREAK SPACE}h |"
    assert lines[-1] == "| all | both | [all 2](docs/lessons.md) | 2 h 15 min |".replace(
        " h ", "\N{NO-BREAK SPACE}h\N{NO-BREAK SPACE}"
    ).replace(" min", "\N{NO-BREAK SPACE}min")
    with pytest.raises(ValueError, match="takes 09, and there is no such part"):
        path_table([INFO], [Way("an hour", "meshes", ("09",))])


def test_a_path_by_its_aim_says_for_whom_it_is_and_what_it_leaves_out():
    opening = LessonInfo("", "tour", "Ten minutes", "You run.", 10, 1, "cpu")
    way = Way("You teach", "You want to see it.", ("tour", "07"), "the rest")
    text = path_sections([opening, INFO], [way])
    assert text.split("\n\n")[1:] == [
        "You want to see it.",
        "- Parts: [tour](../notebooks/tour.ipynb), [07](../notebooks/07_pipeline.ipynb).\n"
        "- Time: 1\N{NO-BREAK SPACE}h\N{NO-BREAK SPACE}10\N{NO-BREAK SPACE}min.\n"
        "- It leaves out the rest.\n",
    ]
    with pytest.raises(ValueError, match="takes 07, and there is no such part"):
        path_sections([opening], [way])
    assert all(one.leaves_out for one in (*PATHS, *MORE_PATHS))


def test_a_path_says_which_parts_it_takes_without_what_they_build_on():
    (evening,) = (one for one in PATHS if one.time == "an evening")
    infos = [*tour(ROOT), *lessons(ROOT)]
    text = path_sections(infos, [evening])
    assert (
        "Not on it, though the parts in brackets build on them: [02a](../notebooks/02a_collectives.ipynb) (04a)."
        in text
    )
    whole = Way("whole", "x", ("00", "02a", "04a"))
    assert "Not on it" not in path_sections(infos, [whole])
    with pytest.raises(LessonError, match="'late' takes 04a before 02a, on which it builds"):
        path_sections(infos, [Way("late", "x", ("00", "04a", "02a"))])


def minutes_by_part() -> dict[str, int]:
    """The minutes that pages say, in docs/maintaining/sizes.md."""
    rows = [line.split("|") for line in (ROOT / "docs/maintaining/sizes.md").read_text().splitlines()]
    return {
        row[1].strip(): int(row[8].replace(",", "")) for row in rows if len(row) > 9 and row[8].strip()[:1].isdigit()
    }


def wrong_times(text: str) -> list[str]:
    """The paths of docs/paths.md whose time is not the sum of their parts' minutes by that table."""
    minutes = minutes_by_part()
    every = sum(one for part, one in minutes.items() if part not in ("tour", "all"))
    wrong = []
    for section in text.split("\n## ")[1:]:
        parts = re.findall(r"\[(tour|\d\d[a-z]?)\]", re.search(r"- Parts: (.*)", section)[1])
        told = re.search(r"- Time: (?:(\d+)\sh)?\s?(?:(\d+)\smin)?\.", section)
        time = 60 * int(told[1] or 0) + int(told[2] or 0) if told else None
        if time != (sum(minutes[part] for part in parts) if parts else every):
            wrong.append(section.partition("\n")[0])
    return wrong


def test_the_times_of_paths_are_those_of_the_table_of_parts():
    text = (ROOT / "docs" / "paths.md").read_text()
    names = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert [name.casefold() for name in names] == [one.time.casefold() for one in (*PATHS, *MORE_PATHS)]
    assert wrong_times(text) == []
    changed = re.sub(r"(?s)(## A class day\n.*?- Time: )\d+", r"\g<1>999", text, count=1)
    assert wrong_times(changed) == ["A class day"]
    assert wrong_times(re.sub(r"(?s)(## You teach\n.*?)- Time: [^\n]*\n", r"\1", text, count=1)) == ["You teach"]
    assert minutes_by_part()["04d"] == 150


def test_every_build_counts_two_sittings_and_stands_on_a_path():
    builds = [info for info in lessons(ROOT) if info.is_build]
    assert [info.label for info in builds] == sorted({places(ROOT).part_of[one.steps[0]] for one in BUILDS})
    assert {info.minutes_text for info in builds} == {"2 × 75"}
    page, plans = (ROOT / "docs/paths.md").read_text(), (ROOT / "docs/instructor/plans.md").read_text()
    for info in builds:
        assert any(info.label in path.parts for path in MORE_PATHS), info.label
        assert f"{info.stem}.ipynb" in page
        assert f"{info.stem}.ipynb" in plans


def test_the_tour_is_no_part_of_everything():
    opening = LessonInfo("", "tour", "Ten minutes", "You run.", 10, 1, "cpu")
    line = path_table([opening, INFO], [Way("all", "both")]).splitlines()[-1]
    assert "[all 1](docs/lessons.md) | 1\N{NO-BREAK SPACE}h" in line


def test_the_path_of_a_class_is_that_of_its_plan():
    plans = (ROOT / "docs" / "instructor" / "plans.md").read_text()
    day = plans.partition("## Two days, the first")[2].partition("\n## ")[0]
    (way,) = [way for way in PATHS if "class" in way.time]
    assert tuple(re.findall(r"\[(\d\d[a-z]?)\]\(", day)) == way.parts


def test_readme_is_a_page_and_a_half():
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 75
    assert len(re.findall(r"!\[", "\n".join(lines))) == 1


def test_the_picture_of_readme_shows_the_lesson_as_it_is():
    """Where it fails: `./course pictures front`, in a browser, and look at the new picture."""
    assert words_in(ROOT / "assets" / FRONT) == words_now(ROOT)


def test_a_picture_of_cells_that_say_otherwise_is_old(tmp_path):
    for folder in ("notebooks", "notebooks/solutions"):
        (tmp_path / folder).mkdir()
        shutil.copy(ROOT / folder / "00_start_here.ipynb", tmp_path / folder)
    (tmp_path / "assets").mkdir()
    assert is_front_fresh(tmp_path)  # no picture, no old one
    shutil.copy(ROOT / "assets" / FRONT, tmp_path / "assets")
    assert is_front_fresh(tmp_path)
    solved = tmp_path / "notebooks" / "solutions" / "00_start_here.ipynb"
    text = solved.read_text()
    solved.write_text(text.replace("Each rank changed its own copy", "Each rank has changed its own"))
    assert not is_front_fresh(tmp_path)
    solved.write_text(text)
    learner = tmp_path / "notebooks" / "00_start_here.ipynb"
    learner.write_text(learner.read_text().replace("Lock an answer before", "Think before"))
    assert not is_front_fresh(tmp_path)
    learner.write_text(learner.read_text().replace("Four ranks run", "They run"))
    with pytest.raises(ValueError, match="the lesson has none such"):
        is_front_fresh(tmp_path)


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", *PAGES])
def test_links_and_pictures_resolve(name):
    targets = re.findall(r"\]\(([^)#\s]+)\)", (ROOT / name).read_text())
    folder = (ROOT / name).parent
    missing = [target for target in targets if "://" not in target and not (folder / target).exists()]
    assert targets or name != "README.md"
    assert not missing


def test_the_example_of_the_library_runs_as_printed():
    code = re.search(r"```python\n(.*?)```", (ROOT / "docs/library.md").read_text(), re.DOTALL).group(1)
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=300)
    assert done.stdout == "[6.0, 6.0, 6.0, 6.0]\n", done.stderr


def test_every_command_that_a_page_names_exists():
    from course_lib.authoring.bench import BENCHES
    from course_lib.cli import VERBS

    text = "\n".join((ROOT / name).read_text() for name in ("README.md", "CONTRIBUTING.md", *PAGES))
    assert set(re.findall(r"\./course ([a-z]+)", text)) == set(VERBS)
    assert set(re.findall(r"course bench ([a-z_]+)", text)) == set(BENCHES)


def test_what_is_typed_at_first_can_be_typed():
    """An address in angle brackets is a redirection to a shell."""
    for name in ("README.md", *PAGES, "docs/instructor/where-it-runs.md"):
        text = (ROOT / name).read_text()
        typed = re.findall(r"^(git clone .*)$", text, re.MULTILINE)
        assert not [line for line in typed if "<" in line], name
        assert not typed or "ADDRESS is what the button *Code*" in text, name


def test_the_planners_example_is_that_of_its_help():
    from course_lib.plan_command import options

    line = re.search(r"^\./(course plan .*)$", (ROOT / "docs/commands.md").read_text(), re.MULTILINE)
    assert line
    assert f"    {line.group(1)}\n" in options.__doc__
