"""The line of parts in the first cell: written from the titles, in every part of a lesson."""

from __future__ import annotations

import shutil

from course_lib.authoring.notebooks.writing.part_links import part_line, renew_part_lines, stale_part_lines
from course_lib.base.paths import project_root
from course_lib.lessons.info import lessons

ROOT = project_root()


def of_lesson(number, root=ROOT):
    return [info for info in lessons(root) if info.number == number]


def test_every_line_is_what_the_titles_say():
    assert stale_part_lines(ROOT) == [], "run `course build`"


def test_a_part_leads_to_the_others_by_what_stands_after_their_colon():
    first, second = of_lesson("06")
    assert part_line(first, [first, second]) == f"Part 1 of 2 · [2: where to cut]({second.stem}.ipynb)"
    assert part_line(second, [first, second]).startswith("Part 2 of 2 · [1: there and back](06a_")


def test_another_title_and_another_break_of_the_line(tmp_path):
    sources = tmp_path / "notebooks" / "src"
    sources.mkdir(parents=True)
    for info in of_lesson("09"):
        shutil.copy(ROOT / "notebooks" / "src" / f"{info.stem}.py", sources)
    assert stale_part_lines(tmp_path) == []
    second = next(sources.glob("09b_*.py"))
    text = second.read_text(encoding="utf-8")
    second.write_text(
        text.replace("# # 09b · Meshes: who holds what", "# # 09b · Meshes: who has what"), encoding="utf-8"
    )
    others = sorted(path.name for path in sources.iterdir() if path != second)
    assert renew_part_lines(tmp_path) == others
    assert stale_part_lines(tmp_path) == []
    for path in sources.iterdir():
        assert ("[2: who has what]" in path.read_text(encoding="utf-8")) == (path != second)
        assert max(map(len, path.read_text(encoding="utf-8").splitlines())) <= 120
    first = sources / others[0]
    broken = first.read_text(encoding="utf-8").replace("# Part 1 of 4 · ", "# Part 1 of 4 ·\n# ")
    first.write_text(broken, encoding="utf-8")
    assert renew_part_lines(tmp_path) == []
    assert first.read_text(encoding="utf-8") == broken


def test_a_new_part_changes_the_lines_of_all(tmp_path):
    sources = tmp_path / "notebooks" / "src"
    sources.mkdir(parents=True)
    for info in of_lesson("06"):
        shutil.copy(ROOT / "notebooks" / "src" / f"{info.stem}.py", sources)
    text = next(sources.glob("06b_*.py")).read_text(encoding="utf-8")
    new = text.replace("# # 06b · Model parallelism: where to cut", "# # 06c · Model parallelism: more")
    start, end = new.index("# Part 2 of 2"), new.index("#\n", new.index("# Part 2 of 2"))
    (sources / "06c_more.py").write_text(f"{new[:start]}# Part 1 of 1 · x\n{new[end:]}", encoding="utf-8")
    assert len(renew_part_lines(tmp_path)) == 3
    assert "# Part 3 of 3 · [1: there and back](06a_" in (sources / "06c_more.py").read_text(encoding="utf-8")
    assert "[3: more](06c_more.ipynb)" in next(sources.glob("06a_*.py")).read_text(encoding="utf-8")
