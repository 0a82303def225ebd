"""README.md tells the truth: its map of lessons, its links, its commands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from course_lib.notebooks.info import LessonInfo
from course_lib.notebooks.readme import lesson_table, readme_is_fresh, renew_readme, with_table

ROOT = Path(__file__).resolve().parent.parent
INFO = LessonInfo("07", "pipeline", "Pipelines", "You fill\na bubble.", 60, 4, "cpu")


def test_the_map_of_lessons_is_up_to_date():
    assert readme_is_fresh(ROOT), "run `course build`"


def test_a_stale_map_is_renewed_and_the_rest_left_alone(tmp_path):
    (tmp_path / "notebooks" / "src").mkdir(parents=True)
    text = "before\n<!-- lessons: begin -->\nold\n<!-- lessons: end -->\nafter\n"
    (tmp_path / "README.md").write_text(text)
    assert not readme_is_fresh(tmp_path)
    assert renew_readme(tmp_path)
    assert not renew_readme(tmp_path)
    new = (tmp_path / "README.md").read_text()
    assert new.startswith("before\n")
    assert new.endswith("after\n")
    assert "old" not in new


def test_a_line_of_the_map_says_what_a_learner_asks():
    line = lesson_table([INFO]).splitlines()[-1]
    assert "[07 · Pipelines](notebooks/07_pipeline.ipynb)" in line
    assert "You fill a bubble. | 60 | 4 of 5 | cpu |" in line
    with pytest.raises(ValueError, match="the map of lessons stands between them"):
        with_table("no marks", [INFO])


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_links_and_pictures_resolve(name):
    targets = re.findall(r"\]\(([^)#\s]+)\)", (ROOT / name).read_text())
    missing = [target for target in targets if "://" not in target and not (ROOT / target).exists()]
    assert targets or name == "CONTRIBUTING.md"
    assert not missing


def test_the_example_of_the_readme_runs_as_printed():
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL).group(1)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=300
    )
    assert done.stdout == "[6.0, 6.0, 6.0, 6.0]\n", done.stderr


def test_every_command_that_the_readme_names_exists():
    from course_lib.bench import BENCHES

    text = (ROOT / "README.md").read_text() + (ROOT / "CONTRIBUTING.md").read_text()
    verbs = set(re.findall(r"\./course ([a-z]+)", text))
    assert verbs <= {"lab", "test", "doctor", "build", "plan", "bench", "pictures", "class", "export", "site"}
    assert set(re.findall(r"course bench ([a-z_]+)", text)) <= set(BENCHES)


def test_the_planners_example_in_the_readme_is_that_of_its_help():
    from course_lib.plan_command import options

    line = re.search(r"^\./(course plan .*)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert line
    assert f"    {line.group(1)}\n" in options.__doc__
