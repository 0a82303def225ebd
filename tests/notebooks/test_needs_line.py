"""What a part builds on: a table of links that lead to earlier parts, in the first cell of each page."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from course_lib.authoring.notebooks.writing.needs_line import needs_line, renew_needs_lines, stale_needs_lines
from course_lib.base.paths import project_root
from course_lib.learn.checks.lesson_index import places
from course_lib.lessons import prerequisites
from course_lib.lessons.info import lessons, source_files
from course_lib.lessons.prerequisites import PREREQUISITES, all_prerequisites, missing_prerequisites
from course_lib.lessons.source import read_source
from course_lib.mine.table import ENTRIES, entry_of

ROOT = project_root()
LABELS = [info.label for info in lessons(ROOT)]
FIRST_CELLS = {(source := read_source(path)).info.label: source.cells[0].text for path in source_files(ROOT)}
CODE = {(source := read_source(path)).info.label: "\n".join(cell.text for cell in source.cells if cell.is_code)
        for path in source_files(ROOT)}  # fmt: skip
_LINK = re.compile(r"\]\((?P<label>\d\d[a-z]?)_\w+\.ipynb")
_RUNS_ON = re.compile(rf"\bmine\.({'|'.join(entry.name for entry in ENTRIES)})\b")


def order_faults(table: dict[str, tuple[str, ...]]) -> list[str]:
    """What a part builds on that there is not, or that does not come earlier."""
    return [f"{part} builds on {one}" for part, needed in table.items() for one in needed
            if one not in LABELS or LABELS.index(one) >= LABELS.index(part)]  # fmt: skip


def functions_not_listed(table: dict[str, tuple[str, ...]], code: dict[str, str]) -> list[str]:
    """The learner's functions that a part runs on whose own part is not among those that it builds on."""
    part_of = places(ROOT).part_of
    found = []
    for part, text in code.items():
        homes = {name: part_of[entry_of(name).exercise] for name in _RUNS_ON.findall(text)}
        found += [f"{part}: mine.{name} of {home}" for name, home in homes.items() if home not in (part, *table[part])]
    return found


def test_every_part_has_a_row_and_what_it_builds_on_comes_earlier():
    assert [*PREREQUISITES] == LABELS
    assert order_faults(PREREQUISITES) == []
    assert [part for part, needed in PREREQUISITES.items() if not needed] == ["00"]
    assert all(list(needed) == sorted(set(needed)) for needed in PREREQUISITES.values())


def test_a_row_in_the_wrong_order_is_seen():
    assert order_faults({"04a": ("02a", "05a")}) == ["04a builds on 05a"]
    assert order_faults({"04a": ("04a",), "04b": ("99z",)}) == ["04a builds on 04a", "04b builds on 99z"]


def test_there_is_no_circle_and_one_would_be_seen(monkeypatch):
    assert all(label not in all_prerequisites(label) for label in LABELS)
    assert all_prerequisites("02d") == {"00", "02a", "02b"}
    monkeypatch.setattr(prerequisites, "PREREQUISITES", {"02a": ("02b",), "02b": ("02c",), "02c": ("02a",)})
    with pytest.raises(ValueError, match="circle: 02b -> 02c -> 02a -> 02b"):
        all_prerequisites("02b")


def test_a_part_that_runs_on_your_own_function_builds_on_its_part():
    assert functions_not_listed(PREREQUISITES, CODE) == []
    assert {part for part, text in CODE.items() if _RUNS_ON.search(text)} >= {"02b", "04b", "04d", "05d", "12f"}
    assert functions_not_listed({"04d": ("04a",)}, {"04d": CODE["04d"]}) == ["04d: mine.all_reduce of 02d"]


def test_what_the_first_words_of_a_page_need_is_in_the_table():
    """The line of links, and the sentences that say what is needed of a part: these too lead to parts of the table."""
    for part, text in FIRST_CELLS.items():
        needs = [words for words in text.split("\n\n") if re.search(r"\bneed\b", words)]
        linked = {label if label in LABELS else f"{label}a" for words in needs for label in _LINK.findall(words)}
        assert linked <= all_prerequisites(part), part


def test_every_page_says_what_it_builds_on_by_links():
    assert stale_needs_lines(ROOT) == [], "run `course build`"
    by_label = {info.label: info for info in lessons(ROOT)}
    for part, needed in PREREQUISITES.items():
        line = needs_line(by_label[part], by_label)
        assert _LINK.findall(line) == list(needed)
        assert line in " ".join(FIRST_CELLS[part].split())
        assert all((ROOT / "notebooks" / name).is_file() for name in re.findall(r"\((\w+\.ipynb)\)", line))


def small_course(folder: Path, *labels: str) -> Path:
    """The sources of some parts, below another root."""
    sources = folder / "notebooks" / "src"
    sources.mkdir(parents=True)
    for info in lessons(ROOT):
        if info.label in labels:
            shutil.copy(ROOT / "notebooks" / "src" / f"{info.stem}.py", sources)
    return sources


def test_a_line_that_is_old_or_gone_is_written_anew(tmp_path):
    sources = small_course(tmp_path, "00", "02a", "02b")
    part = next(sources.glob("02b_*.py"))
    right = part.read_text(encoding="utf-8")
    for wrong in (
        right.replace("builds on [02a: what travels](02a_collectives", "builds on [02c: what travels](02c_collectives"),
        re.sub(r"# This part builds on .*?\n#\n", "", right, count=1, flags=re.DOTALL),
    ):
        assert wrong != right
        part.write_text(wrong, encoding="utf-8")
        assert stale_needs_lines(tmp_path) == [part.name]
        assert renew_needs_lines(tmp_path) == [part.name]
        assert part.read_text(encoding="utf-8") == right
    part.write_text(right.replace("# This part builds on [02a", "# This part builds on\n# [02a"), encoding="utf-8")
    assert stale_needs_lines(tmp_path) == []  # how it is broken makes no difference


def test_a_part_without_those_before_it_is_left_alone(tmp_path):
    small_course(tmp_path, "02b")
    assert stale_needs_lines(tmp_path) == []


def test_a_path_names_what_it_has_not_visited():
    assert missing_prerequisites(("00", "02a", "04a")) == {}
    assert missing_prerequisites(("00", "04a", "02a")) == {"04a": ["02a"]}
    assert missing_prerequisites(("tour", "04d")) == {"04d": ["02d", "04a", "04b"]}
