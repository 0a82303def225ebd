"""``course bench gpu`` where little is installed: stand-ins for what lessons need, and a Python with a few packages."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import jupytext
import pytest
from plain_python import ALLOWED, make_plain_python

from course_lib.authoring.bench.gpu import stand_ins

ROOT = Path(__file__).resolve().parent.parent.parent
HANG_LIMIT_S = 300.0


# -- stand-ins -------------------------------------------------------------------------------------------------------


def stand_in(name: str):
    path = Path(stand_ins.__file__).parent / name / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"stand_in_{name}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.first_cases(8)
@pytest.mark.parametrize("path", sorted((ROOT / "notebooks" / "src").glob("[0-9]*.py")), ids=lambda path: path.stem)
def test_the_stand_in_reads_a_lesson_as_jupytext_does(path):
    ours, theirs = (reader.read(path, fmt="py:percent").cells for reader in (stand_in("jupytext"), jupytext))
    assert [(cell.cell_type, cell.source, cell.metadata.get("tags")) for cell in ours] == [
        (cell.cell_type, cell.source, cell.metadata.get("tags")) for cell in theirs
    ]


def test_the_stand_in_reads_no_other_format():
    with pytest.raises(ValueError, match="reads 'py:percent' alone"):
        stand_in("jupytext").reads("x", fmt="md")


def test_stand_in_controls_hold_values_and_tell_of_changes():
    widgets = stand_in("ipywidgets")
    choice = widgets.Dropdown(options=[("one", 1), ("two", 2)], layout={"width": "9em"})
    box, slider = widgets.BoundedIntText(value=3), widgets.IntSlider(value=3)
    widgets.link((box, "value"), (slider, "value"))
    heard = []
    choice.observe(lambda change: heard.append((change.old, change.new)), names="value")
    choice.value, slider.value = 2, 7
    assert (choice.value, box.value, heard, choice.layout.width) == (2, 7, [(1, 2)], "9em")
    assert isinstance(widgets.VBox([box]), widgets.VBox)
    with pytest.raises(AttributeError, match="no 'no_such'"):
        _ = widgets.no_such


def test_the_stand_in_bar_counts_and_shows_nothing(capsys):
    tqdm = stand_in("tqdm").tqdm
    with tqdm([1, 2, 3], desc="epoch", total=3) as bar:
        assert list(bar) == [1, 2, 3]
        bar.set_postfix(loss=1.0)
        bar.set_postfix_str("loss 1")
    assert bar.n == 3
    assert capsys.readouterr() == ("", "")
    tqdm.write("a line")
    assert capsys.readouterr().out == "a line\n"


def test_only_what_is_missing_gets_a_stand_in():
    assert stand_ins.missing() == (), "the course's own environment has them all"
    (folder,) = stand_ins.folders(("jupytext", "nbval"))
    assert Path(folder).name == "jupytext"


# -- a bare Python ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """A plain folder with the course, without git and .venv, and a Python with a few packages: (folder, python)."""
    if os.name == "nt":
        pytest.skip("the bare Python is made of links")
    folder = tmp_path_factory.mktemp("plain")
    for name in ("course_lib", "notebooks/src", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("course", "pyproject.toml", "requirements.txt"):
        shutil.copy(ROOT / name, folder / name)
    return folder, make_plain_python(tmp_path_factory.mktemp("python") / "env")


def in_bare(bare, *words: str) -> subprocess.CompletedProcess[str]:
    folder, python = bare
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return subprocess.run(
        [str(python), *words], cwd=folder, env=env, capture_output=True, text=True, timeout=HANG_LIMIT_S
    )


@pytest.mark.long
@pytest.mark.limit_s(HANG_LIMIT_S)
def test_the_script_runs_it_with_a_bare_python_and_names_what_is_missing(bare, tmp_path):
    path = tmp_path / "it.json"
    done = in_bare(bare, "course", "bench", "gpu", "--cpu", "--steps", "memory", "--json", str(path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no environment of the course is here; going on with" in done.stderr
    assert not (bare[0] / ".venv").exists()
    content = json.loads(path.read_text())
    assert content["steps"]["memory"]["outcome"] == "passed"
    named = set(content["missing_packages"])
    assert named == set(stand_ins.COURSE_PACKAGES) - set(ALLOWED)
    assert "Not installed there: jupyterlab, ipywidgets" in path.with_suffix(".md").read_text()


@pytest.mark.long
@pytest.mark.limit_s(HANG_LIMIT_S)
def test_what_lessons_use_loads_with_stand_ins(bare):
    code = (
        "import sys; from course_lib.authoring.bench.gpu import stand_ins\n"
        "sys.path[:0] = stand_ins.folders(stand_ins.missing())\n"
        "import course_lib, course_lib.widgets, course_lib.plot, course_lib.learn.quizzes.quiz_form\n"
        "import course_lib.examples.train_ddp\n"
        "from course_lib.widgets import BucketExplorer\n"
        "[getattr(course_lib, name) for name in course_lib.__all__]\n"
        "BucketExplorer()\n"
        "from course_lib.lessons.source import read_source\n"
        "print(len(read_source('notebooks/src/00_start_here.py').cells) > 10, *stand_ins.missing())"
    )
    done = in_bare(bare, "-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("True ")
    assert "ipywidgets" in done.stdout, "a stand-in on the path is not the package"
