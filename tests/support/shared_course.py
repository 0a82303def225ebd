"""An installation of the real course that other users can read and not write, as an administrator would make it.

Its environment is of the system's Python, since the one of the tests may lie where others cannot enter, and it takes
its packages from where those of the tests are.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_projects import ROOT, load_script
from waiting import crowd

from course_lib.authoring.bench.class_of_users.users import may_make_users

LIMIT_S = 300


def python_of_all() -> str | None:
    """A Python of this very version that every user can start, or None."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for found in (os.path.realpath(sys.executable), f"/usr/bin/{name}", f"/usr/local/bin/{name}"):
        path = Path(found)
        if path.is_file() and all(folder.stat().st_mode & 0o001 for folder in path.parents):
            return found
    return None


def why_not() -> str:
    """Why no such installation can be tried here; empty where it can."""
    if not may_make_users():
        return "it makes users of the system, which needs root and useradd"
    if python_of_all() is None:
        return "there is no Python of this version that other users can start"
    packages = Path(sysconfig.get_path("purelib"))
    closed = [str(folder) for folder in packages.parents if not folder.stat().st_mode & 0o001]
    return f"the packages lie below {closed[-1]}, which other users cannot enter" if closed else ""


def course_files(course: Path) -> None:
    """Copy there what git has of the course, and would have."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "-c", "-o", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (course / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, course / name)


def shared_course(folder: Path) -> Path:
    """Make it below ``folder``, which everybody can enter."""
    course = folder / "one-model-many-gpus"
    course_files(course)
    venv = course / ".venv"
    python = python_of_all()
    assert python is not None
    subprocess.run([python, "-m", "venv", "--without-pip", venv], check=True, timeout=LIMIT_S * crowd())
    (packages,) = (venv / "lib").glob("python*/site-packages")
    (packages / "of_the_tests.pth").write_text(f"{course}\n{sysconfig.get_path('purelib')}\n")
    for name in ("share", "etc"):
        (venv / name).mkdir(exist_ok=True)
        (venv / name / "jupyter").symlink_to(Path(sys.prefix) / name / "jupyter")
    script = load_script(course)
    (venv / "course-made").touch()
    (venv / "course-ready").write_text(script.place() + script.wanted())
    subprocess.run(["chmod", "-R", "a+rX", course], check=True)
    return course


def share(course: Path) -> None:
    """Prepare it for users who cannot write there, as root does after an installation."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    command = [course / "course", "lab", "--share"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=LIMIT_S * crowd())
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"can start it by  {course / 'course'} lab" in done.stdout


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder that everybody can enter, as pytest's own are private."""
    with tempfile.TemporaryDirectory(prefix="shared-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(scope="module")
def course(folder: Path) -> Path:
    """The course in a folder of root's, ready for all users."""
    made = shared_course(folder)
    share(made)
    return made


# For `course bench class --course`: PYTHONPATH=.:tests/support python tests/support/shared_course.py DIR
if __name__ == "__main__":
    print(shared_course(Path(sys.argv[1])))
