"""What a wheel holds, by its configuration alone: nothing is built here. `test_wheel_installed.py` builds one."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from installed_course import tracked
from small_projects import ROOT

from course_lib.authoring.wheel import files_of

LIBRARY = ROOT / "course_lib"
TOOL = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
# What works in a clone alone: making an environment, and the tests.
IN_A_CLONE = ("environment/", "authoring/testing/")
QUOTED = re.compile(r"""["'](notebooks|assets|docs)\b""")  # other files are not looked through
LEFT_OUT = {"notebooks/nbval.cfg", "notebooks/src/ruff.toml"}  # for the tests, and for ruff


@cache
def taken() -> frozenset[str]:
    return frozenset(files_of(ROOT))


def need_git() -> set[str]:
    """The files that belong to the course."""
    if not tracked():
        pytest.skip("this is no checkout of git, which says what belongs to the course")
    return set(tracked())


def test_setuptools_can_take_it_where_the_course_cannot_be_imported() -> None:
    # As in a build of its own, whose environment holds setuptools alone. In a process of its own, since setuptools
    # cannot be imported once something has imported Python's own distutils.
    code = (
        "import setuptools, sys\n"
        "from setuptools.config.expand import cmdclass\n"
        "sys.modules['course_lib'] = None\n"
        f"taken = cmdclass({TOOL['cmdclass']!r}, root_dir={str(ROOT)!r})\n"
        "assert issubclass(taken['build_py'], setuptools.Command)"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=60, cwd="/")
    if "No module named 'setuptools'" in done.stderr:
        pytest.skip("this Python has no setuptools, which builds the wheel")
    assert done.returncode == 0, done.stderr


def test_all_lessons_pictures_records_and_documents_are_in_it() -> None:
    wanted = {name for name in need_git() if name.partition("/")[0] in ("notebooks", "assets", "docs")}
    assert wanted - taken() == LEFT_OUT
    assert {"README.md", "CONTRIBUTING.md", "LICENSE", "requirements.txt"} <= taken()


def test_nothing_but_the_courses_own_files_is_in_it() -> None:
    assert taken() <= need_git()
    assert not [name for name in taken() if name.startswith(("tests/", "course_lib/"))]


def test_every_file_of_the_library_is_in_it() -> None:
    patterns = TOOL["package-data"]["course_lib"]
    data = {path.relative_to(ROOT).as_posix() for pattern in patterns for path in LIBRARY.glob(pattern)}
    others = {name for name in need_git() if name.startswith("course_lib/") and not name.endswith(".py")}
    assert others <= data, "name them in pyproject.toml: tool.setuptools.package-data"


# --- What is read at run time ---------------------------------------------------------------------------------------


def named_in(code: str) -> Iterator[str]:
    """The files and folders of the clone that code names: "assets/x.json", or `root / "assets" / "x.json"`."""
    within = set()
    for node in ast.walk(ast.parse(code)):
        if node in within:
            continue
        words = []
        while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            within.add(node.left)
            words.insert(0, node.right.value if isinstance(node.right, ast.Constant) else "")
            node = node.left
        if not words and isinstance(node, ast.Constant):
            words = [node.value]
        known = [*words, ""].index("")  # a name that is made at run time ends what can be told
        yield "/".join(map(str, words[:known]))


def is_there(name: str) -> bool:
    """Whether the wheel has it: the file, or files below it."""
    return name in taken() or any(file.startswith(f"{name.rstrip('/')}/") for file in taken())


def of_the_clone(name: str) -> bool:
    try:
        return bool(QUOTED.match(f'"{name}')) and (ROOT / name).exists()
    except (OSError, ValueError):  # a text that is no name of a file
        return False


def readers() -> Iterator[tuple[str, str]]:
    """The names and texts of modules and lessons that may name such a file."""
    for path in [*LIBRARY.rglob("*.py"), *(ROOT / "notebooks" / "src").glob("*.py")]:
        name, text = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
        if QUOTED.search(text) and not name.removeprefix("course_lib/").startswith(IN_A_CLONE):
            # The line that begins a cell for ranks is no Python.
            yield name, "\n".join("" if line.startswith("%%") else line for line in text.splitlines())


def test_every_file_that_is_read_at_run_time_is_in_it() -> None:
    found = {name: reader for reader, code in readers() for name in named_in(code) if of_the_clone(name)}
    lacking = [f"{name}, which {reader} names" for name, reader in found.items() if not is_there(name)]
    assert not lacking, f"add them in course_lib/authoring/wheel/files.py: {'; '.join(lacking)}"
    # What F4 of a review has met: a record of lesson 00, the runs of 11a, the capstone's record, and the sources.
    assert {
        "assets/measured/torchrun_log.json", "assets/published/memory.csv",
        "assets/measured/capstone_2_cores.json", "notebooks/src",
    } <= set(found)  # fmt: skip


def test_what_code_names_is_seen() -> None:
    code = 'a = root() / "assets" / "measured" / f"{x}.json"\nb = ["docs/x.md", folder / "tests"]'
    assert {"assets/measured", "docs/x.md", "tests"} <= set(named_in(code))
    assert is_there("assets/measured/")
    assert not is_there("assets/measured_otherwise")


# --- Which files are taken ------------------------------------------------------------------------------------------


def test_what_a_learner_keeps_and_what_is_hidden_is_not_taken(tmp_path: Path) -> None:
    names = {
        "README.md": True, "tests/test_x.py": False, "course": False,
        "notebooks/04a_one.ipynb": True, "notebooks/04a_one (kept 2026-11-24 10.00).ipynb": False,
        "notebooks/solutions/04a_one.ipynb": True, "notebooks/src/04a_one.py": True, "notebooks/mine.ipynb": False,
        "notebooks/.ipynb_checkpoints/04a_one-checkpoint.ipynb": False,
        "docs/instructor/hub/x.sbatch": True, "docs/.x.md.swp": False, "docs/instructor/.ipynb_checkpoints/x.md": False,
        "assets/00_loop.png": True, "assets/measured/x.json": True, "assets/published/x.csv": True,
        "assets/traces/x.csv": True,
    }  # fmt: skip
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert files_of(tmp_path) == sorted(name for name, is_taken in names.items() if is_taken)
