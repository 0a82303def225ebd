"""docs/ten-plans.md: its boxes are what the planner prints, and its sentences tell no number that no box has."""

from __future__ import annotations

import re
import shutil

import pytest

from course_lib.authoring.notebooks.writing.printed import (
    PRINTING_PAGES,
    output_of,
    renew_printed,
    stale_printed,
    with_outputs,
)
from course_lib.base.paths import project_root

PAGE = "docs/ten-plans.md"
TEXT = (project_root() / PAGE).read_text(encoding="utf-8")
SECTIONS = re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:]
BOXES = re.compile(r"<!-- prints: .*?<!-- printed -->", re.DOTALL)
MEASURED = re.compile(r"\d[\d,.]*(?:-\d[\d.]*)?(?: (?:s|ms|GB)\b|%| %)")
KNOWN = {
    "41 %": "of Llama 3's authors",
    "32 %": "of FlashAttention-3's authors",
    "2.5 GB": "1.24 billion times 2",
}  # what no box prints, and where it is from


def test_there_are_ten_and_the_page_is_known() -> None:
    assert [section.split(".")[0] for section in SECTIONS] == [str(number) for number in range(1, 11)]
    assert all(BOXES.search(section) for section in SECTIONS)
    assert PAGE in PRINTING_PAGES


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.split("\n")[0])
def test_each_number_that_a_sentence_tells_stands_in_a_box_beside_it(section: str) -> None:
    boxes = " ".join(" ".join(box.split()) for box in BOXES.findall(section))
    told = {" ".join(found.split()) for found in MEASURED.findall(BOXES.sub("", section.partition("\n")[2]))}
    assert not {number for number in told - set(KNOWN) if number not in boxes}


def test_what_is_named_in_a_sentence_is_a_layout_of_a_box_beside_it() -> None:
    for section in SECTIONS:
        boxes = " ".join(BOXES.findall(section))
        for name in re.findall(r"`((?:tp|pp|cp|dp|one GPU)\S* [^`-]*mb\d+[^`]*)`", BOXES.sub("", section)):
            assert name in boxes, name


def test_a_box_is_what_its_command_prints(tmp_path) -> None:
    command = "course plan --model gpt-2 --machine 2xt4 --batch 64 --seq 1024 --brief --top 1"
    old = f"Before.\n\n<!-- prints: {command} -->\nwas here\n<!-- printed -->\n\nAfter.\n"
    new = with_outputs(old, "page.md")
    assert output_of(command) in new
    assert "gpt-2, 124.4 million parameters, on 2 GPUs of 2x T4" in output_of(command)
    assert new.startswith("Before.\n\n")
    assert new.endswith("\n\nAfter.\n")
    assert "was" not in new
    assert with_outputs(new, "page.md") == new
    (tmp_path / "docs").mkdir()
    (tmp_path / PAGE).write_text(new.replace("million", "billion"), encoding="utf-8")
    assert stale_printed(tmp_path) == [PAGE]
    assert renew_printed(tmp_path) == [PAGE]
    assert stale_printed(tmp_path) == []
    assert (tmp_path / PAGE).read_text(encoding="utf-8") == new


def test_a_long_command_is_typed_over_several_lines_that_a_shell_joins() -> None:
    box = next(box for box in BOXES.findall(TEXT) if " \\\n" in box)
    command = re.search(r"prints: (.*?) -->", box).group(1)
    typed = box.split("```\n")[1].replace(" \\\n   ", "")
    assert typed.strip() == f"./{command}"
    assert max(map(len, box.split("```")[1].splitlines())) <= 100


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no box at all", "page.md holds no box of a command"),
        ("<!-- prints: rm -r . -->\n<!-- printed -->", "boxes are of `course plan` alone"),
        ("<!-- prints: course bench gpu -->\n<!-- printed -->", "page.md wants the output of `course bench gpu`"),
    ],
)
def test_a_page_that_cannot_be_written_is_told(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        with_outputs(text, "page.md")


def test_a_clone_without_the_page_has_nothing_to_renew(tmp_path) -> None:
    assert renew_printed(tmp_path) == stale_printed(tmp_path) == []
    shutil.copy(project_root() / PAGE, tmp_path)
    assert stale_printed(tmp_path) == []  # it looks in docs alone
