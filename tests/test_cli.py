"""The command `course`: its verbs, its help, and what it says to a word that it does not know."""

from __future__ import annotations

import subprocess
import sys

import pytest

from course_lib import cli
from course_lib.base.paths import project_root

HANG_LIMIT_S = 300
HEAVY = {"torch", "numpy", "matplotlib", "jupyterlab", "sklearn"}


def imported_by(code: str) -> set[str]:
    """The heavy packages that some code imports, in a process of its own."""
    tell = f"{code}\nimport sys\nprint('HEAVY', *(set(sys.modules) & {HEAVY}))"
    done = subprocess.run(
        [sys.executable, "-c", tell], capture_output=True, text=True, timeout=HANG_LIMIT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("HEAVY")]
    return set(line.split()[1:])


def plant(monkeypatch: pytest.MonkeyPatch, source: str, name: str = "planted_verb") -> None:
    """Make the verb `doctor` live in a module made of `source`."""
    module = type(sys)(name)
    exec(source, module.__dict__)
    monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(cli.VERBS, "doctor", cli.Verb(name, "planted"))


@pytest.mark.parametrize("argv", [[], ["--help"], ["-h"], ["help"]])
def test_help_names_every_verb(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(argv) == 0
    out = capsys.readouterr().out
    for name, verb in cli.VERBS.items():
        assert f"course {name}" in out
        assert verb.summary in out
    assert {"lab", "test", "doctor", "build", "bench", "pictures"} <= set(cli.VERBS)


@pytest.mark.parametrize(
    ("word", "near"), [("docter", "doctor"), ("tests", "test"), ("--lab", "lab"), ("Bench", "bench")]
)
def test_unknown_verb_names_the_nearest(word: str, near: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([word]) == 2
    err = capsys.readouterr().err
    assert f"Did you mean `course {near}`?" in err
    assert repr(word) in err


def test_unknown_verb_that_is_near_to_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["xyzzy"]) == 2
    err = capsys.readouterr().err
    assert "Did you mean" not in err
    assert ", ".join(cli.VERBS) in err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    import course_lib

    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"{course_lib.__version__}\n"


def test_a_verb_gets_its_arguments_and_gives_its_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, "def main(argv):\n    return 5 if argv == ['--json', 'x'] else 0")
    assert cli.main(["doctor", "--json", "x"]) == 5
    assert cli.main(["doctor"]) == 0


def test_help_of_a_verb(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, "def main(argv):\n    return 9 if argv == ['--help'] else 0")
    assert cli.main(["help", "doctor"]) == 9


def test_a_verb_that_is_stopped(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    plant(monkeypatch, "def main(argv):\n    raise KeyboardInterrupt")
    assert cli.main(["doctor"]) == 130
    assert "course doctor: stopped" in capsys.readouterr().err


def test_a_package_that_is_missing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    plant(monkeypatch, "def main(argv):\n    import no_such_package.part")
    monkeypatch.setattr(cli.sys, "prefix", "/usr")  # an environment that ./course has not made
    assert cli.main(["doctor"]) == 1
    err = capsys.readouterr().err
    assert "needs the package 'no_such_package'" in err
    assert "pip install -r requirements.txt" in err


@pytest.mark.parametrize("module", ["no_such_package.part", "halved.part"])
def test_a_damaged_environment_is_to_be_made_again(tmp_path, monkeypatch, capsys, module) -> None:
    (tmp_path / "course-ready").touch()
    (tmp_path / "halved.py").write_text("from os import no_such_name")
    monkeypatch.setattr(cli.sys, "prefix", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    plant(monkeypatch, f"def main(argv):\n    import {module}")
    assert cli.main(["doctor"]) == 1
    assert f"delete {tmp_path}; ./course makes it again" in capsys.readouterr().err


def test_a_defect_of_ours_is_not_called_a_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, "def main(argv):\n    import course_lib.no_such_module")
    with pytest.raises(ModuleNotFoundError):
        cli.main(["doctor"])


def test_the_command_itself_imports_nothing_heavy() -> None:
    assert imported_by("import course_lib.cli as c; c.main(['--help'])") == set()


def test_help_runs_on_the_standard_library_alone() -> None:
    # -S: no site-packages, as before anything is installed.
    code = "from course_lib import cli, environment; raise SystemExit(cli.main(['--help']))"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], cwd=project_root(), capture_output=True, timeout=HANG_LIMIT_S
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("verb", cli.VERBS)
def test_help_of_every_verb_imports_nothing_heavy(verb: str) -> None:
    call = f"with contextlib.suppress(SystemExit): cli.main([{verb!r}, '--help'])"
    assert imported_by(f"import contextlib\nfrom course_lib import cli\n{call}") == set()


@pytest.mark.parametrize(
    "words",
    [
        ["find", "all-reduce"],
        ["plan", "--model", "llama-3-8b", "--machine", "dgx-h100", "--batch", "64", "--seq", "4096"],
        ["trace", "ddp_resnet_2xa100"],
    ],
    ids=lambda words: words[0],
)
def test_a_reader_who_leaves_ends_a_verb_without_a_word(words: list[str]) -> None:
    """As `course find all-reduce | head` does."""
    command = [sys.executable, "-m", "course_lib.cli", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout
        assert running.stderr
        running.stdout.close()
        assert running.stderr.read() == ""
        assert running.wait(HANG_LIMIT_S) == 0


def test_a_pipe_that_breaks_elsewhere_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, "def main(argv): raise BrokenPipeError('a rank has gone')")
    with pytest.raises(BrokenPipeError, match="a rank has gone"):
        cli.main(["doctor"])
