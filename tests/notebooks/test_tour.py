"""The tour: a page beside the lessons, built, compared and handed out as they are, and never counted among them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import nbformat
import pytest

from course_lib.authoring.notebooks.writing.build import find_sources
from course_lib.authoring.site.pages import index, places
from course_lib.authoring.testing.parts import commands_of
from course_lib.authoring.testing.portable.trial import notebooks_of
from course_lib.authoring.wheel.files import files_of
from course_lib.lab.edition import _names
from course_lib.lessons.info import LessonError, lesson_info, lessons, parse_first_cell, tour_file
from course_lib.lessons.source import read_source

ROOT = Path(__file__).resolve().parents[2]
TOUR = ROOT / "notebooks" / "src" / "tour.py"


def test_the_tour_has_a_label_and_is_no_lesson():
    info = lesson_info(TOUR)
    assert (info.stem, info.label, info.number, info.minutes) == ("tour", "", "", 10)
    assert info.title.startswith("One model, many GPUs")
    assert "tour" not in {one.stem for one in lessons(ROOT)}
    assert tour_file(ROOT) == [TOUR]


def test_a_tour_needs_its_title(tmp_path):
    first = "# 00 · A lesson\n\nA promise.\n\n**10 minutes · difficulty 1 of 5 · needs: cpu**"
    with pytest.raises(LessonError, match=r"the title says lesson 00, the file name Tour"):
        parse_first_cell(tmp_path / "tour.py", first)
    assert tour_file(tmp_path) == []


def test_it_is_built_last_and_by_its_name():
    assert find_sources(ROOT, ["tour"]) == [TOUR]
    assert find_sources(ROOT, [])[-1] == TOUR
    assert TOUR not in find_sources(ROOT, ["00"])


def test_its_copies_are_run_by_the_tests_and_handed_out():
    for part, name in (("solutions", "notebooks/solutions/tour.ipynb"), ("learner", "notebooks/tour.ipynb")):
        assert any(name in command for command in commands_of(part, root=ROOT))
    assert notebooks_of(ROOT, ["tour"]) == ["notebooks/solutions/tour.ipynb"]
    assert {"notebooks/tour.ipynb", "notebooks/solutions/tour.ipynb", "notebooks/src/tour.py"} <= {*files_of(ROOT)}
    assert _names(ROOT)[-1] == "notebooks/tour.ipynb"


def test_the_site_shows_it_first():
    where = places(ROOT)
    assert where.pages["notebooks/tour.ipynb"] == "lessons/tour.ipynb"
    trees = re.findall(r":caption: (.+)\n\n(.+)", index(ROOT, lessons(ROOT), where, []))
    assert trees[0][0] == "Ten minutes"
    assert "<lessons/tour>" in trees[0][1]


def test_it_asks_nothing_to_be_built_and_shows_no_widget():
    code = "\n".join(cell.text for cell in read_source(TOUR).cells if cell.is_code)
    called = {node.func.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)
              and isinstance(node.func, ast.Name)}  # fmt: skip
    assert not called & {"check", "ask", "reveal", "hint", "quiz", "solution"}
    assert "SOLUTION" not in code


def outputs_of(text: str) -> list[str]:
    """What the cells of the solved copy printed, of those that hold this text."""
    solved = nbformat.read(ROOT / "notebooks" / "solutions" / "tour.ipynb", as_version=4)
    return ["".join(one.get("text", "") for one in cell.get("outputs", ())) for cell in solved.cells
            if text in cell.source]  # fmt: skip


def test_each_way_ends_with_the_losses_of_one_device():
    ways = outputs_of("train(")
    told = [way for way in ways if way]
    assert len(told) == 5
    assert all(way.strip().endswith("the losses of one device on every rank: True") for way in told)


def test_the_picture_grows_and_says_where_time_goes_and_no_comparison_hangs_on_a_clock():
    pictures = [cell for cell in read_source(TOUR).cells if cell.is_code and "memory_and_time_bars(bars" in cell.text]
    assert len(pictures) == 6
    assert all("nbval-ignore-output" in cell.tags for cell in pictures)
    solved = nbformat.read(ROOT / "notebooks" / "solutions" / "tour.ipynb", as_version=4)
    texts = [
        cell.outputs[0]["data"]["text/plain"] for cell in solved.cells if cell.source.startswith("memory_and_time")
    ]
    for name, text in zip(
        ("one device", "copies", "shards", "stages", "slices", "shards of slices"), texts, strict=True
    ):
        assert re.search(rf"{name}: [\d.]+ .?s \(computing [\d.]+ .?s", text), text
    assert all(word in texts[-1] for word in ("messages", "waiting"))


def test_the_usual_guess_is_wrong():
    (said,) = outputs_of("You guessed")
    guessed, most = re.search(r"You guessed (\w+); a rank of (\w+) sends most", said).groups()
    assert guessed != most


def test_the_hang_is_told_with_the_rank_that_never_came():
    (said,) = outputs_of("four.run(forgets)")
    assert "Rank 2 never called all_reduce #1." in said
