"""``course test portable``: what it tries, what it leaves out and says so, and that no cell differs unseen."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from course_lib.authoring import testing
from course_lib.authoring.testing.portable import (
    command,
    environments,
    kinds,
    other_arithmetic,
    report,
    trial,
)
from course_lib.authoring.testing.portable.environments import Environment, NotMadeError
from course_lib.authoring.testing.portable.kinds import KINDS
from course_lib.authoring.testing.portable.trial import Combination, TrialOutcome, Unfinished
from course_lib.base import paths

ALL_FLAGS = {flag for kind in KINDS.values() for flag in kind.flags}
THIS = Environment(sys.executable, "3.11.7", "2.13.0+cpu", is_this=True)
OTHER = Environment("/else/bin/python", "3.13.0", "2.15.0")


def write_notebook(root: Path, name: str, *cells: tuple[str, str, list[str]]) -> None:
    """A solved notebook; each cell is its code, its stored output and its tags."""
    built = [
        {
            "cell_type": "code",
            "id": f"c{index}",
            "metadata": {"tags": tags},
            "source": code,
            "execution_count": 1,
            "outputs": [{"output_type": "stream", "name": "stdout", "text": text}] if text else [],
        }
        for index, (code, text, tags) in enumerate(cells)
    ]
    built.insert(0, {"cell_type": "markdown", "id": "m", "metadata": {}, "source": "text"})
    folder = root / trial.FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps({"cells": built, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    write_notebook(
        tmp_path,
        "05e_one.ipynb",
        ("1", "1\n", []),
        ("x = 1", "", []),
        ("t", "3 ms\n", ["nbval-ignore-output"]),
    )
    write_notebook(tmp_path, "08c_two.ipynb", ("2", "2\n", []))
    return tmp_path


@pytest.fixture
def tried(monkeypatch) -> list[Combination]:
    """The combinations that a command tries; nothing is run, and all is well."""
    found: list[Combination] = []

    def try_one(combination, notebooks, *, root):
        found.append(combination)
        return TrialOutcome(7, ())

    monkeypatch.setattr(trial, "try_one", try_one)
    monkeypatch.setattr(kinds, "flags", lambda: ALL_FLAGS)
    monkeypatch.setattr(command, "flags", lambda: ALL_FLAGS)
    monkeypatch.setattr(environments, "this_environment", lambda: THIS)
    monkeypatch.setattr(environments, "make", lambda folder, python, torch, root: OTHER)
    monkeypatch.setattr(environments, "found_pythons", pythons)
    return found


def pythons(wanted):
    return ([], []) if wanted == ["this"] else (["/else/python"], [("Python 3.14", "none")])


def said(all_tried: list[Combination]) -> list[str]:
    return [f"{one.kind.name} {one.num_threads} {one.environment.torch}" for one in all_tried]


# --- What is tried ----------------------------------------------------------------------------------------------------


def test_without_options_every_kind_and_every_python_is_tried(project, tried, capsys):
    assert command.main([], root=project) == 0
    here = [f"{kind} {n} 2.13.0+cpu" for kind in ("default", "avx2", "avx512", "nudged") for n in (1, 2)]
    assert said(tried) == [*here, "own 1 2.15.0", "own 1 2.15.0"], "another Python, and this one with the newest torch"
    out = capsys.readouterr().out
    assert "left out: Python 3.14: none" in out
    assert "10 combinations, 70 cells compared, 0 differ" in out


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--python", "this", "--torch", "pinned", "--processor", "avx2", "--threads", "1"], ["avx2 1 2.13.0+cpu"]),
        (["--python", "3.13", "--torch", "2.14.1"], ["own 1 2.15.0"]),
        (["--python", "3.13", "--threads", "2", "--processor", "avx2"], ["avx2 2 2.15.0"]),
        (["--python", "this", "--torch", "newest"], ["own 1 2.15.0"]),
    ],
)
def test_options_choose(project, tried, argv, expected):
    assert command.main(argv, root=project) == 0
    assert said(tried) == expected


def test_what_the_processor_lacks_is_named(project, tried, monkeypatch, capsys):
    monkeypatch.setattr(command, "flags", lambda: {"sse4_1", "sse4_2"})
    assert command.main(["--python", "this", "--torch", "pinned", "--threads", "1"], root=project) == 0
    assert [one.kind.name for one in tried] == ["default", "nudged"]
    out = capsys.readouterr().out
    assert "left out: processor avx2: this processor lacks avx2, fma" in out
    assert "left out: processor avx512: this processor lacks avx512f" in out


def test_a_system_that_does_not_say_is_named(tmp_path):
    assert kinds.flags(tmp_path / "none") == set()
    assert "does not say" in kinds.lacking(KINDS["default"], kinds.flags(tmp_path / "none"))
    assert kinds.lacking(KINDS["nudged"], set()) == ""
    (tmp_path / "cpuinfo").write_text("processor: 0\nflags\t\t: sse4_1 sse4_2 avx2\n")
    assert kinds.flags(tmp_path / "cpuinfo") == {"sse4_1", "sse4_2", "avx2"}


def test_the_variables_of_a_kind():
    assert kinds.variables(KINDS["default"], 1) == {
        "ATEN_CPU_CAPABILITY": "default",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
        "COURSE_ARITHMETIC": "",
        "OMP_NUM_THREADS": "1",
    }
    assert kinds.variables(KINDS["nudged"], 2) == {
        "COURSE_ARITHMETIC": "nudged,threads=2",
        "OMP_NUM_THREADS": "2",
    }


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["--lesson", "77"], "there is no lesson '77'; there are 05e, 08c"),
        (
            ["--torch", "later", "--python", "3.13"],
            "torch 'later' is no version; give pinned, newest, or a version",
        ),
    ],
)
def test_what_cannot_be_is_said(project, tried, capsys, argv, sentence, monkeypatch):
    monkeypatch.setattr(environments, "make", make)
    assert command.main(argv, root=project) == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize("argv", [["--processor", "z80"], ["--threads", "0"], ["--threads", "two"], ["--speed"]])
def test_an_option_that_is_none_ends_with_2(project, argv, capsys):
    with pytest.raises(SystemExit) as ended:
        command.main(argv, root=project)
    assert ended.value.code == 2


def test_no_notebook_is_a_failure(tmp_path, tried, capsys):
    assert command.main([], root=tmp_path) == 2
    assert "holds no notebook, so nothing is proved" in capsys.readouterr().err


def test_it_stands_alone_and_is_in_no_other_run(monkeypatch, capsys):
    seen = []
    monkeypatch.setattr(command, "main", lambda argv, root: seen.append((argv, root)) or 0)
    assert testing.main(["portable", "--threads", "1"]) == 0
    assert seen == [(["--threads", "1"], paths.project_root())]
    assert testing.main(["lint", "portable"]) == 2
    assert "`portable` stands alone" in capsys.readouterr().err
    assert "portable" not in [part.name for part in testing.PARTS]


# --- Environments -----------------------------------------------------------------------------------------------------

make = environments.make


class Shell:
    """Stands in for ``subprocess.run``: it notes commands, and answers with a code and a text."""

    def __init__(self, code: int = 0, out: str = "3.13.0 2.15.0\n", err: str = "", error: Exception | None = None):
        self.done, self.error, self.commands = (code, out, err), error, []

    def __call__(self, words, **_):
        self.commands.append([str(word) for word in words])
        if self.error is not None:
            raise self.error
        code, out, err = self.done
        return subprocess.CompletedProcess(words, code, out, err)


@pytest.fixture
def root(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.setattr(environments, "pip_settings", lambda python, cwd, env: {})
    (tmp_path / "requirements.txt").write_text("torch==2.13.0\nnumpy==2.4.6\n")
    return tmp_path


@pytest.mark.parametrize(
    ("torch_version", "line"),
    [("pinned", "torch==2.13.0"), ("newest", "torch>=2.13"), ("2.14.1", "torch==2.14.1")],
)
def test_an_environment_has_the_pins_and_the_torch_that_was_asked_for(root, torch_version, line):
    shell = Shell()
    made = make(root / "kept", "/usr/bin/python3.13", torch_version, root=root, run=shell)
    assert (made.python, made.torch, made.is_this) == ("3.13.0", "2.15.0", False)
    (requirements,) = (root / "kept").glob("*.txt")
    assert requirements.read_text() == f"{line}\nnumpy==2.4.6\n"
    assert any(str(requirements) in words for words in shell.commands)
    again = Shell()
    make(root / "kept", "/usr/bin/python3.13", torch_version, root=root, run=again)
    assert [words[-2] for words in again.commands] == ["-c"], "what was made is only asked"


@pytest.mark.parametrize(
    ("shell", "sentence"),
    [
        (Shell(1, err="trying\nno wheel for this Python"), "no wheel for this Python"),
        (Shell(error=OSError("no such file")), "no such file"),
        (Shell(error=subprocess.TimeoutExpired("uv", 3600)), "timed out"),
        (Shell(0, out=""), "torch is not there: it says nothing"),
    ],
)
def test_an_environment_that_cannot_be_had_is_left_out_with_the_reason(
    root, tried, monkeypatch, capsys, shell, sentence
):
    with pytest.raises(NotMadeError, match=sentence):
        make(root / "kept", "/usr/bin/python3.13", "pinned", root=root, run=shell)
    write_notebook(root, "05e_one.ipynb", ("1", "1\n", []))
    monkeypatch.setattr(environments, "make", lambda *args, **options: make(*args, **options, run=shell))
    assert command.main(["--python", "3.13"], root=root) == 1, "nothing was tried"
    assert "left out: python with torch pinned: " in capsys.readouterr().out


def test_pythons_are_looked_for_on_the_path_and_must_answer(monkeypatch):
    monkeypatch.setattr(environments.shutil, "which", lambda name: None if name == "python3.14" else f"/bin/{name}")
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    found, left_out = environments.found_pythons([], run=Shell())
    assert found == [f"/bin/python{version}" for version in ("3.11", "3.12", "3.13") if version != own]
    assert ("Python 3.14", "there is no python3.14 on the PATH") in left_out
    found, left_out = environments.found_pythons(["3.12" if own != "3.12" else "3.13"], run=Shell(127))
    assert found == []
    assert left_out[0][1].endswith("is there, and does not run")
    assert environments.found_pythons(["this"], run=Shell()) == ([], [])


def test_this_environment_is_the_one_that_runs():
    this = environments.this_environment()
    assert (this.interpreter, this.torch, this.is_this) == (sys.executable, torch.__version__, True)


# --- What a run has found ---------------------------------------------------------------------------------------------


def xml(*cases: tuple[str, int, str]) -> str:
    """pytest's report on cells: notebook, number, and what is inside."""
    lines = [
        f'<testcase classname="notebooks.solutions.{name}.ipynb" name="Cell {number}">{inside}</testcase>'
        for name, number, inside in cases
    ]
    return f"<testsuites><testsuite>{''.join(lines)}</testsuite></testsuites>"


WELL = [("05e_one", 0, ""), ("05e_one", 1, ""), ("05e_one", 2, "")]


def test_cells_with_an_output_that_is_compared_are_counted(project):
    notebooks = trial.notebooks_of(project, ["05e"])
    assert trial.outcome_of(xml(*WELL), notebooks, root=project) == TrialOutcome(1, ())
    both = trial.notebooks_of(project, [])
    assert trial.outcome_of(xml(*WELL, ("08c_two", 0, "")), both, root=project) == TrialOutcome(2, ())


@pytest.mark.parametrize("inside", ["<failure/>", "<error/>"])
def test_a_cell_that_differs_is_named(project, inside):
    notebooks = trial.notebooks_of(project, ["05"])
    cases = [("05e_one", 0, inside), *WELL[1:]]
    assert trial.outcome_of(xml(*cases), notebooks, root=project) == TrialOutcome(1, ("05e_one 0",))


def test_a_report_that_lacks_cells_proves_nothing(project):
    notebooks = trial.notebooks_of(project, ["05"])
    with pytest.raises(Unfinished, match="nothing is told of 1 of 3 cells"):
        trial.outcome_of(xml(*WELL[:2]), notebooks, root=project)


def test_a_run_that_breaks_off_is_no_success(project, tried, monkeypatch, capsys):
    def broken(combination, notebooks, *, root):
        raise Unfinished("worker 'gw0' crashed")

    monkeypatch.setattr(trial, "try_one", broken)
    assert command.main(["--python", "this", "--torch", "pinned", "--threads", "1"], root=project) == 1
    assert "it did not run to its end: worker 'gw0' crashed" in capsys.readouterr().out


def test_one_cell_that_differs_fails_the_run_and_is_kept(project, tried, monkeypatch, capsys, tmp_path):
    outcomes = iter([TrialOutcome(7, ()), TrialOutcome(7, ("05e_one 41",))])
    monkeypatch.setattr(trial, "try_one", lambda combination, notebooks, root: next(outcomes))
    kept = tmp_path / "kept.json"
    argv = ["--python", "this", "--torch", "pinned", "--processor", "avx2", "--json", str(kept)]
    assert command.main(argv, root=project) == 1
    assert "2 combinations, 14 cells compared, 1 differ" in capsys.readouterr().out
    found = json.loads(kept.read_text())
    assert found["command"] == "course test portable --python this --torch pinned --processor avx2"
    assert [one["differ"] for one in found["combinations"]] == [[], ["05e_one 41"]]
    assert str(tmp_path) not in kept.read_text()


STAND_IN = """
import os, re, sys
report = next(word for word in sys.argv if word.startswith("--junitxml=")).partition("=")[2]
inside = "<failure/>" if "nudged" in os.environ["COURSE_ARITHMETIC"] else ""
case = '<testcase classname="notebooks.solutions.08c_two.ipynb" name="Cell 0">' + inside + "</testcase>"
if os.environ["OMP_NUM_THREADS"] == "1":
    open(report, "w").write("<testsuites>" + case + "</testsuites>")
else:
    sys.exit("killed for memory")
"""


def test_a_run_is_made_in_its_kind(project, monkeypatch):
    """By a stand-in for pytest; a real one is in the test below."""
    seen = []

    def stand_in(root, notebooks, *, python, are_warm):
        seen.append((root, list(notebooks), are_warm))
        return [python, "-c", STAND_IN]

    monkeypatch.setattr(trial, "nbval_command", stand_in)
    notebooks = trial.notebooks_of(project, ["08c"])
    outcomes = [trial.try_one(Combination(KINDS[kind], 1, THIS), notebooks, root=project) for kind in ("own", "nudged")]
    assert outcomes == [TrialOutcome(1, ()), TrialOutcome(1, ("08c_two 0",))]
    assert seen == [(project, ["notebooks/solutions/08c_two.ipynb"], True)] * 2
    with pytest.raises(Unfinished, match="killed for memory"):
        trial.try_one(Combination(KINDS["own"], 2, THIS), notebooks, root=project)


@pytest.mark.long
def test_a_run_of_nbval_in_two_kinds(tmp_path):
    """The whole way once: a cell whose last digit hangs on the arithmetic, and one that does not."""
    code = "import torch\ntorch.manual_seed(0)\nx = torch.rand(9, 9) @ torch.rand(9, 9)\nprint({})"
    values = {}
    for shown in ("float(x[0, 0])", "round(float(x[0, 0]), 2)"):
        scope: dict = {}
        exec(code.format(f"end='') or exec('v = {shown}'"), scope)
        values[shown] = scope["v"]
    cells = [(code.format(shown), f"{value}\n", []) for shown, value in values.items()]
    write_notebook(tmp_path, "05e_one.ipynb", *cells)
    notebooks, this = trial.notebooks_of(tmp_path, []), environments.this_environment()
    own = trial.try_one(Combination(KINDS["own"], 1, this), notebooks, root=tmp_path)
    assert own == TrialOutcome(2, ())
    nudged = trial.try_one(Combination(KINDS["nudged"], 1, this), notebooks, root=tmp_path)
    assert nudged == TrialOutcome(2, ("05e_one 0",))


def test_a_run_that_cannot_begin_says_why(project):
    nobody = Environment(str(project / "python"), "3.13.0", "2.15.0")
    with pytest.raises(Unfinished, match="No such file"):
        trial.try_one(Combination(KINDS["own"], 1, nobody), trial.notebooks_of(project, []), root=project)


# --- Nudged arithmetic ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_nudging_changes_last_bits_of_long_numbers_alone(dtype):
    numbers = torch.rand(1000, dtype=dtype, generator=torch.Generator().manual_seed(0))
    nudged = other_arithmetic.nudge(numbers.clone())
    assert (nudged != numbers).double().mean() > 0.7
    assert ((nudged - numbers).abs() <= 8 * torch.finfo(dtype).eps * numbers).all()
    short = torch.tensor([0.0, 1.0, -2.5, 0.125, 12345.0, float("inf")], dtype=dtype)
    assert torch.equal(other_arithmetic.nudge(short.clone()), short)
    assert torch.equal(other_arithmetic.nudge(numbers.clone()), nudged), "equal numbers are nudged alike"


def test_of_numbers_in_16_bits_few_are_nudged():
    numbers = torch.rand(4000, generator=torch.Generator().manual_seed(0)).bfloat16()
    share = (other_arithmetic.nudge(numbers.clone()) != numbers).double().mean()
    assert 0.05 < share < 0.25
    whole = torch.arange(5)
    assert torch.equal(other_arithmetic.nudge(whole.clone()), whole)


NUDGED = """
import torch
from course_lib.authoring.testing.portable.other_arithmetic import apply
def results():
    g = torch.Generator().manual_seed(0)
    a, b = torch.rand(8, 8, generator=g), torch.rand(8, 8, generator=g)
    torch.manual_seed(0)
    layer = torch.nn.Linear(8, 8)
    return [a @ b, layer(a), torch.bmm(a[None], b[None]), a.sum(0), a.sum(), a.mean(), a.mean(0),
            torch.randn(9, generator=g), torch.nn.init.normal_(torch.empty(9), generator=g)]
before = results()
apply("nudged,threads=3")
for one, other in zip(before, results(), strict=True):
    assert one.shape == other.shape and one.dtype == other.dtype
    assert not torch.equal(one, other) and torch.allclose(one, other, atol=1e-6), (one, other)
assert torch.equal(torch.ones(2, 2) @ torch.ones(2, 2), torch.full((2, 2), 2.0))
assert torch.arange(5).sum() == 10 and (torch.arange(5) > 2).sum(0).dtype == torch.int64
assert torch.arange(5).float().sum(0, dtype=torch.float64).dtype == torch.float64
torch.set_num_threads(1)
assert torch.get_num_threads() == 3
"""


def test_nudged_arithmetic_is_near_and_another():
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", NUDGED], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_a_word_that_is_not_known_is_refused():
    for word in ("faster", "threads=many", "threads"):
        with pytest.raises(ValueError, match="it knows nudged and threads=NUMBER"):
            other_arithmetic.apply(word)


def test_a_row_of_the_table():
    found = report.Found(Combination(KINDS["avx2"], 2, THIS), TrialOutcome(1170, ("05e 41", "08c 30")))
    assert report.row(found) == "avx2             2  3.11.7   2.13.0+cpu      1170  05e 41, 08c 30"
