"""Assignments for nbgrader, looked at without it: its rules for cells, whose words stand where, what is never lost."""

from __future__ import annotations

import ast
import hashlib
import json
import re
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

from course_lib.authoring.notebooks.assignments.cells import (
    BEGIN_HIDDEN,
    END_HIDDEN,
    assignment_notebook,
    checks_in,
    pictures_in,
)
from course_lib.authoring.notebooks.assignments.settings import CONFIG
from course_lib.authoring.notebooks.cli import main
from course_lib.learn.checks.reference import answer_names
from course_lib.lessons.convert import learner_notebook
from course_lib.lessons.info import LessonError, source_files
from course_lib.lessons.regions import learner_text
from course_lib.lessons.source import Source, parse_source, read_source

ROOT = Path(__file__).resolve().parents[2]
SOURCES = source_files(ROOT)
HEAD = """\
# %% [markdown]
# # 05 · A tiny lesson
#
# You learn to double. [The next](06_next.ipynb) trebles, [elsewhere](https://example.org) more.
# ![two boxes and an arrow](../assets/00_loop.png)
#
# **10 minutes · difficulty 2 of 5 · needs: cpu**
"""
TINY = (
    HEAD
    + '''
# %%
### BEGIN SOLUTION
### STUB ask("05.twice")
ask("05.twice").commit(4)
### END SOLUTION

# %%
def double(a: int) -> int:
    """Twice a."""
    ### BEGIN SOLUTION
    return a + a
    ### END SOLUTION

# %%
verdict = check("05.twice", double)
verdict
'''
)


def tiny(text: str = TINY) -> NotebookNode:
    return assignment_notebook(parse_source(text, Path("05_tiny.py")))


def about(notebook: NotebookNode) -> list[dict]:
    return [cell.metadata["nbgrader"] for cell in notebook.cells if "nbgrader" in cell.metadata]


def without_hidden_tests(text: str) -> str:
    return re.sub(rf"^{BEGIN_HIDDEN}$.*?^{END_HIDDEN}$\n?", "", text, flags=re.DOTALL | re.MULTILINE).rstrip("\n")


@pytest.fixture(scope="module")
def sources() -> dict[str, Source]:
    return {path.stem: read_source(path) for path in SOURCES}


@pytest.fixture(scope="module")
def notebooks(sources: dict[str, Source]) -> dict[str, NotebookNode]:
    return {stem: assignment_notebook(source) for stem, source in sources.items()}


# -- nbgrader's rules for the metadata of a cell ---------------------------------------------------------------------

NEEDED = {
    "schema_version": int,
    "grade": bool,
    "locked": bool,
    "solution": bool,
    "task": bool,
    "grade_id": str,
}


def breaches(notebook: NotebookNode) -> list[str]:
    """What nbgrader's schema 3 and its MetadataValidator would refuse, and what makes no sense for points."""
    found, ids = [], set()
    for cell in notebook.cells:
        given = cell.metadata.get("nbgrader")
        if given is None:
            continue
        wrong = [key for key, kind in NEEDED.items() if type(given.get(key)) is not kind]
        more = set(given) - NEEDED.keys() - {"points"}
        rules = {
            f"keys {wrong} or {more}": wrong or more,
            "schema": given["schema_version"] != 3,
            "id": not re.fullmatch(r"[a-zA-Z0-9_-]+", given["grade_id"]),
            "id twice": given["grade_id"] in ids,
            "kind": cell.cell_type != "code",
            "test or answer": given["grade"] == given["solution"],
            "a test is locked, an answer is not": given["locked"] != given["grade"],
            "points": (given.get("points", 0) > 0) != given["grade"],
            "hidden tests": (BEGIN_HIDDEN in cell.source) != given["grade"],
        }
        found += [f"{given['grade_id']}: {rule}" for rule, broken in rules.items() if broken]
        ids.add(given["grade_id"])
    return found


@pytest.mark.long
def test_every_assignment_keeps_the_rules_of_nbgrader(notebooks):
    assert len(notebooks) > 40
    for stem, notebook in notebooks.items():
        nbformat.validate(notebook)
        assert not breaches(notebook), stem
        ids = [cell.id for cell in notebook.cells]
        assert len(set(ids)) == len(ids), stem


def test_a_breach_would_be_seen():
    notebook = tiny()
    assert not breaches(notebook)
    answer, test = about(notebook)
    answer["grade_id"] = test["grade_id"]
    test["locked"], test["checksum"] = False, "0" * 32
    assert {one.partition(": ")[2].split(" ")[0] for one in breaches(notebook)} == {"keys", "id", "a"}


def test_every_check_of_the_course_is_worth_points_and_has_a_solution_cell_above(sources, notebooks):
    for stem, source in sources.items():
        code = "\n".join(cell.text for cell in source.cells if cell.is_code and checks_in(cell.text))
        seen: set[str] = set()
        checked = []
        for cell in notebooks[stem].cells:
            given = cell.metadata.get("nbgrader", {})
            if given.get("solution"):
                seen.add(given["grade_id"].removeprefix("answer_"))
            if given.get("grade"):
                checked += checks_in(cell.source)
                assert given["points"] == 1
                for name, answer in answer_names(without_hidden_tests(cell.source)).items():
                    assert answer in seen, f"{stem}: {name} checks {answer}, and no cell above is for it"
                    assert f'need_passed("{name}")' in cell.source
        assert sorted(checked) == sorted(answer_names(code)), stem


def test_without_hidden_tests_and_solutions_it_is_the_code_of_the_learners_copy(sources, notebooks):
    for stem, source in sources.items():
        plain = [cell.source for cell in learner_notebook(source).cells if cell.cell_type == "code"]
        given = [
            learner_text(without_hidden_tests(cell.source), str)
            for cell in notebooks[stem].cells
            if cell.cell_type == "code"
        ]
        assert "\n".join(given).replace("\n", "") == "\n".join(plain).replace("\n", ""), stem


def test_questions_give_no_points_and_are_no_answers(notebooks):
    answer, test = about(tiny())
    assert (answer["grade_id"], test["grade_id"]) == ("answer_double", "check_05_twice")
    questions = [
        cell for one in notebooks.values() for cell in one.cells if re.match(r"### .*\n### STUB ask\(", cell.source)
    ]
    assert len(questions) > 100
    assert not [cell.source for cell in questions if "nbgrader" in cell.metadata and "bet = " not in cell.source]


def test_hidden_tests_give_check_its_meaning_again_and_raise_last():
    lines = tiny().cells[-1].source.splitlines()
    assert lines == [
        "### BEGIN HIDDEN TESTS",
        "from course_lib.learn.checks.grading import check, need_passed",
        "### END HIDDEN TESTS",
        'verdict = check("05.twice", double)',
        "verdict",
        "### BEGIN HIDDEN TESTS",
        'need_passed("05.twice")',
        "### END HIDDEN TESTS",
    ]


def test_a_check_below_its_answer_in_one_cell_becomes_a_cell_of_its_own():
    joined = TINY.replace("\n# %%\nverdict = check", "\nverdict = check")
    answer, test = tiny(joined).cells[-2:]
    assert answer.source.endswith("### END SOLUTION")
    assert test.metadata["nbgrader"]["locked"]
    assert without_hidden_tests(test.source) == 'verdict = check("05.twice", double)\nverdict'
    above = TINY.replace("    return a + a", '    check("05.twice", double)')
    with pytest.raises(LessonError, match=r"05_tiny.py:\d+: a check stands above the end"):
        tiny(above)


BUILD_CELLS = (
    HEAD
    + '''
# %%
def add(a: int, b: int) -> int:
    """Their sum."""
    ### BEGIN SOLUTION
    return a + b
    ### END SOLUTION


def double(a: int) -> int:
    """Twice a."""
    ### BEGIN SOLUTION
    return add(a, a)
    ### END SOLUTION

# %%
check("05.twice_values", double)

# %% [markdown]
# Now of less.

# %%
check("05.twice_memory", double)

# %%
check("05.twice_hidden", double)
'''
)


def test_each_step_of_a_build_is_a_point_for_the_one_cell_above():
    answer, *tests = about(tiny(BUILD_CELLS))
    assert answer["solution"]
    assert answer["grade_id"] == "answer_double"  # what is handed in, and not what stands first
    assert [test["grade_id"] for test in tests] == [f"check_05_twice_{step}" for step in ("values", "memory", "hidden")]
    assert [test["points"] for test in tests] == [1, 1, 1]
    assert not breaches(tiny(BUILD_CELLS))
    cells = [cell.source for cell in tiny(BUILD_CELLS).cells if cell.metadata.get("nbgrader", {}).get("grade")]
    for name, text in zip(("values", "memory", "hidden"), cells, strict=True):
        assert f'need_passed("05.twice_{name}")' in text
        assert text.count("need_passed(") == 1


def test_text_shows_pictures_beside_it_and_leads_nowhere_that_is_not_handed_out(notebooks):
    text = tiny().cells[0].source
    assert "The next trebles" in text
    assert "[elsewhere](https://example.org)" in text
    assert pictures_in(tiny()) == ["assets/00_loop.png"]
    for stem, notebook in notebooks.items():
        assert all((ROOT / name).is_file() for name in pictures_in(notebook)), stem
        prose = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
        prose = re.sub(r"```.*?```|`[^`\n]*`", "", prose, flags=re.DOTALL)
        targets = re.findall(r"\]\(([^)\s]+)\)|(?:src|href)=\"([^\"]+)\"", prose)
        away = [one or other for one, other in targets if not (one or other).startswith(("assets/", "http", "#"))]
        assert not away, f"{stem}: {away}"


# -- the folder ------------------------------------------------------------------------------------------------------


def build(*words: str) -> int:
    return main(["--nbgrader", *words], root=ROOT)


def test_a_folder_for_nbgrader(tmp_path, capsys):
    assert build(str(tmp_path / "class"), "00", "01") == 0
    said = capsys.readouterr().out
    assert "00_start_here, 01a_one_device, 01c_less_memory" in said
    assert "no check, so no points and no assignment: 01b_time_and_data" in said
    files = {str(path.relative_to(tmp_path / "class")) for path in (tmp_path / "class").rglob("*.*")}
    assert {"nbgrader_config.py", "source/00_start_here/00_start_here.ipynb"} <= files
    assert "source/00_start_here/assets/00_loop.png" in files
    assert not [name for name in files if name.endswith(".tmp")]
    ast.parse((tmp_path / "class" / "nbgrader_config.py").read_text())


def test_the_folder_may_be_left_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert build("00") == 0
    assert (tmp_path / "grading" / "source" / "00_start_here" / "00_start_here.ipynb").is_file()


def test_a_changed_notebook_is_kept_and_said(tmp_path, capsys):
    assert build(str(tmp_path), "00", "02a") == 0
    path = tmp_path / "source" / "00_start_here" / "00_start_here.ipynb"
    other = tmp_path / "source" / "02a_collectives" / "02a_collectives.ipynb"
    notebook = json.loads(path.read_text())
    graded = next(cell for cell in notebook["cells"] if cell["metadata"].get("nbgrader", {}).get("grade"))
    graded["metadata"]["nbgrader"]["points"] = 5
    path.write_text(json.dumps(notebook))
    changed, fresh = path.read_bytes(), other.read_bytes()
    other.unlink()
    assert build(str(tmp_path), "00", "02a") == 1
    assert path.read_bytes() == changed
    assert other.read_bytes() == fresh, "what is not in the way is written"
    assert re.search(r"00_start_here.ipynb: changed since .* kept .* move it away", capsys.readouterr().err)
    path.write_text("no notebook at all")
    assert build(str(tmp_path), "00") == 1
    assert path.read_text() == "no notebook at all"
    path.unlink()
    assert build(str(tmp_path), "00") == 0


def test_what_jupyter_saves_without_a_change_is_not_a_change(tmp_path):
    assert build(str(tmp_path), "02a") == 0
    path = tmp_path / "source" / "02a_collectives" / "02a_collectives.ipynb"
    notebook = json.loads(path.read_text())
    for cell in notebook["cells"]:
        cell["metadata"]["editable"] = True
        if cell["cell_type"] == "code":
            cell["execution_count"] = 3
            cell["source"] = "".join(cell["source"])
    path.write_text(json.dumps(notebook))
    assert build(str(tmp_path), "02a") == 0


def test_settings_of_an_older_edition_are_renewed_and_changed_ones_kept(tmp_path, capsys):
    path = tmp_path / "nbgrader_config.py"
    old = "c = get_config()\n"
    path.write_text(old + f"# As the course wrote it: {hashlib.sha256(old.encode()).hexdigest()}\n")
    assert build(str(tmp_path), "02a") == 0
    assert path.read_text().startswith(CONFIG)
    path.write_text(mine := path.read_text() + "c.Execute.timeout = 10\n")
    assert build(str(tmp_path), "02a") == 1
    assert path.read_text() == mine
    assert "nbgrader_config.py: changed" in capsys.readouterr().err


@pytest.mark.parametrize("place", ["a file", "notebooks", "a file below"])
def test_no_folder_can_be_made_there(tmp_path, capsys, place):
    (tmp_path / "file").write_text("mine")
    folder = {
        "a file": tmp_path / "file",
        "notebooks": ROOT / "notebooks" / "class",
        "a file below": tmp_path / "file" / "x",
    }
    assert build(str(folder[place]), "02a") == 1
    said = capsys.readouterr().err
    assert str(folder[place]) in said
    assert "Traceback" not in said
    assert (tmp_path / "file").read_text() == "mine"
    assert not (ROOT / "notebooks" / "class").exists()


def test_a_lesson_that_is_not_there(tmp_path, capsys):
    assert build(str(tmp_path / "new"), "99") == 1
    assert "there is no lesson '99'" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
