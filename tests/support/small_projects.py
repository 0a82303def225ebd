"""Small projects that the real script `course` sets up: packages without content, from files, without a network."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ("__init__.py", "cli.py", "base/__init__.py", "base/lazy.py", "base/signals.py", "base/paths.py")
HANG_LIMIT_S = 300

# A build backend small enough to read: what setuptools does for the real project, without setuptools.
BACKEND = """
import os, zipfile
def build_editable(folder, config_settings=None, metadata_directory=None):
    name = "tiny-0.1-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as wheel:
        wheel.writestr("tiny.pth", os.getcwd())
        wheel.writestr("tiny-0.1.dist-info/METADATA", "Metadata-Version: 2.1\\nName: tiny\\nVersion: 0.1\\n")
        wheel.writestr("tiny-0.1.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr("tiny-0.1.dist-info/RECORD", "")
    return name
"""
# Another: it tells its process id, then sleeps, unless one has done so before.
SLOW_BACKEND = """
import os, time
from pathlib import Path
def get_requires_for_build_wheel(*_):
    if not Path("pid").exists():
        Path("new").write_text(str(os.getpid()))
        os.rename("new", "pid")
        time.sleep(60)
    return []
def build_wheel(folder, *_):
    import zipfile
    name = "tiny-0.1-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as wheel:
        wheel.writestr("tiny-0.1.dist-info/METADATA", "Metadata-Version: 2.1\\nName: tiny\\nVersion: 0.1\\n")
        wheel.writestr("tiny-0.1.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr("tiny-0.1.dist-info/RECORD", "")
    return name
"""
PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "tiny"
version = "0.1"
"""
# Stands in for the real verb, and tells what the script has made.
DOCTOR = """
import importlib.util, json, os, sys
def main(argv):
    bricks = [name for name in ("brick_a", "brick_b") if importlib.util.find_spec(name)]
    print(json.dumps({"argv": argv, "prefix": sys.prefix, "bricks": bricks,
                      "virtual_env": os.environ["VIRTUAL_ENV"], "path": os.environ["PATH"].split(os.pathsep)[0]}))
    return 7 if "--fail" in argv else 0
"""


def brick(project: Path, name: str) -> str:
    """Write a wheel with one empty module; its line for requirements.txt."""
    path = project / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{name}.py", "")
        wheel.writestr(f"{name}-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        wheel.writestr(f"{name}-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{name}-1.0.dist-info/RECORD", "")
    return f"./{path.name}\n"


@pytest.fixture
def no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No uv on the PATH, and none to be had: pip does the work, from files."""
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    for name in ("PIP_FIND_LINKS", "PYTHONPATH"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def project(tmp_path: Path, no_network: None) -> Path:
    """A small project that the real script can set up, offline, in some seconds."""
    folder = tmp_path / "a project"  # with a blank, as in many people's folders
    (folder / "course_lib").mkdir(parents=True)
    shutil.copy(ROOT / "course", folder)
    for name in LIBRARY:
        (folder / "course_lib" / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / "course_lib" / name, folder / "course_lib" / name)
    shutil.copytree(ROOT / "course_lib" / "environment", folder / "course_lib" / "environment")
    (folder / "course_lib" / "doctor.py").write_text(DOCTOR)
    (folder / "backend.py").write_text(BACKEND)
    (folder / "pyproject.toml").write_text(PYPROJECT)
    (folder / "requirements.txt").write_text("--no-index\n" + brick(folder, "brick_a"))
    return folder


@pytest.fixture(scope="session")
def empty_environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with pip alone. To make one takes seconds of computing, to copy it hardly any."""
    folder = tmp_path_factory.mktemp("environment") / ".venv"
    base = getattr(sys, "_base_executable", sys.executable)
    subprocess.run([base, "-m", "venv", str(folder)], check=True, timeout=HANG_LIMIT_S)
    return folder


@pytest.fixture
def made_project(project: Path, empty_environment: Path) -> Path:
    """A small project whose environment stands, with none of its packages: the script has only those to install."""
    venv = project / ".venv"
    shutil.copytree(empty_environment, venv, symlinks=True)
    (venv / "course-made").touch()
    (venv / "course-ready").write_text(load_script(project).place() + "another list of packages\n")
    return project


def command(project: Path, *argv: str) -> list[str]:
    return [sys.executable, str(project / "course"), *argv]


def start(project: Path, *argv: str, **options) -> subprocess.CompletedProcess[str]:
    options = {"capture_output": True, "text": True, "timeout": HANG_LIMIT_S} | options
    return subprocess.run(command(project, *argv), **options)


def load_script(project: Path) -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("course_script", str(project / "course"))
    spec = importlib.util.spec_from_loader("course_script", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def slow_brick(project: Path) -> Path:
    """Make the project need a package whose build tells its process id and then takes a minute, the first time."""
    slow = project / "slow"
    slow.mkdir()
    (slow / "pyproject.toml").write_text(PYPROJECT)
    (slow / "backend.py").write_text(SLOW_BACKEND)
    (project / "requirements.txt").write_text("--no-index\n./slow\n")
    return slow / "pid"
