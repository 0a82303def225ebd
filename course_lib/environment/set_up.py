"""What a set-up does, and in which order.

`course-made` is written into .venv first: the folder is ours, and may be cleared. `course-ready` is written last. A
set-up that was stopped or failed leaves none, and the next start begins again, with what had been fetched in a cache.
"""

from __future__ import annotations

import errno
import importlib.util
import os
import re
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from course_lib.base.signals import ended_as_by_ctrl_c
from course_lib.environment.failures import AGAIN, SetupError, StepFailed, disk_full
from course_lib.environment.install import install
from course_lib.environment.lock import alone
from course_lib.environment.step import Steps, say

__all__ = ["Target", "set_up"]


@dataclass(frozen=True)
class Target:
    """What is to be made, and how ./course will judge it: paths, and the functions that read its note."""

    root: str
    venv: str
    python: str
    place: Callable[[], str]
    wanted: Callable[[], str]
    installed: Callable[[], str]
    whole: Callable[[], bool]
    ready: Callable[[], bool]

    @property
    def made_file(self) -> Path:
        return Path(self.venv, "course-made")

    @property
    def ready_file(self) -> Path:
        return Path(self.venv, "course-ready")

    @property
    def packages_file(self) -> Path:
        return Path(self.venv, "course-packages")


def set_up(target: Target) -> int:
    """Make `target` ready, alone; 0 when it is, 1 with a sentence on stderr when not, 130 when stopped."""
    try:
        with ended_as_by_ctrl_c(), alone(Path(target.root, ".venv.lock")) as lock:
            if not target.ready():
                _make(target, Steps(target.root, lock))
    except SetupError as error:
        say(f"course: {error}")
        return 1
    except OSError as error:
        say(f"course: {_explain(error, target)}")
        return 1
    except KeyboardInterrupt:
        say(f"\ncourse: stopped during the set-up. Nothing half-made will be used. {AGAIN}")
        return 130
    return 0


def _make(target: Target, steps: Steps) -> None:
    """Install what changed where .venv stands for this place, and make it from the start otherwise."""
    for name in ("requirements.txt", "pyproject.toml"):
        if not Path(target.root, name).is_file():
            raise SetupError(
                f"{name} is missing in {target.root}: this copy of the course is not whole. Clone it again."
            )
    wanted = target.wanted()  # before, not after: the files may change while uv is at work
    if target.installed().startswith(target.place()) and target.whole():
        say("The list of packages has changed: bringing .venv up to date.")
        target.ready_file.unlink()
    else:
        _check_venv_modules()
        _check_place(target.root)
        free_gb = shutil.disk_usage(target.root).free / 1e9
        say(
            f"Setting up the course in {target.venv}, once: half a minute, and the time to fetch what is not yet "
            f"on this machine. 2 to 8 GB ({free_gb:.0f} GB are free)."
        )
        _say_small_torch()
        _clear(target)
        # Where an environment is active, take the Python below it: the active one may be the one made anew.
        base = getattr(sys, "_base_executable", None) or sys.executable
        steps.run([base, "-m", "venv", target.venv], "Making the environment")
    install(target.python, target.root, steps)
    try:
        first = [target.python, "-P", "-m", "course_lib.environment.first_imports"]
        steps.run(first, "Preparing a quick start")
    except StepFailed as error:
        say(f"{error.reason} The first lesson will start more slowly.")
    Path(target.venv, ".lock").unlink(missing_ok=True)  # uv's: everybody could hold it, and keep uv waiting
    _note_packages(target)
    new = target.ready_file.with_suffix(".new")
    new.write_text(target.place() + wanted)
    new.replace(target.ready_file)


def _note_packages(target: Target) -> None:
    """Write down what lies beside each other in site-packages: where one has gone, the next start makes .venv again.

    Folders with a version in their names are left out: whoever upgrades a package changes those.
    """
    for site in sorted(Path(target.venv).glob("[Ll]ib*/**/site-packages"))[:1]:
        names = [name for name in os.listdir(site) if not name.endswith((".dist-info", ".egg-info"))]
        kept = sorted(name for name in names if name != "__pycache__" and "-" not in name and "\n" not in name)
        lines = [site.relative_to(target.venv).as_posix(), *kept]
        target.packages_file.write_text("\n".join(lines), encoding="utf-8", errors="surrogateescape")


def _say_small_torch() -> None:
    """Tell who has no GPU, and no index of their own, how to spare themselves the CUDA libraries."""
    has_gpu = any(map(os.path.exists, ("/dev/nvidiactl", "/dev/dxg")))
    chosen = any(name in os.environ for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"))
    if sys.platform == "linux" and not has_gpu and not chosen:
        small = "PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu"
        say(f"No NVIDIA GPU is seen here. For the small torch without CUDA: Ctrl-C, then {small} ./course")


def _check_place(root: str) -> None:
    """Refuse a folder whose name a tool takes for something else: venv a separator of PATH, setuptools a variable."""
    taken = {os.pathsep, *re.findall(r"[{}]|\$(?=[A-Za-z_])", root)}
    found = sorted(sign for sign in taken if sign in root.removeprefix(os.path.splitdrive(root)[0]))
    if found:
        better = re.sub(rf"[{re.escape(os.pathsep)}{{}}$]+", "-", os.path.basename(root)).strip("-") or "course"
        raise SetupError(
            f"{root} has {' and '.join(found)} in its path, which venv or setuptools takes for something else, so "
            f"that no environment can be made there. Move the course to a folder without it, such as {better}; blanks "
            "and other letters do no harm."
        )


def _check_venv_modules() -> None:
    missing = [name for name in ("venv", "ensurepip") if importlib.util.find_spec(name) is None]
    if not missing:
        return
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    remedy = f"On Debian or Ubuntu: sudo apt install python{version}-venv"
    if not os.path.exists("/etc/debian_version"):
        remedy += ". Elsewhere: your system's package for it, or https://www.python.org/downloads/"
    raise SetupError(
        f"Python {version} ({sys.executable}) comes without its module {' and '.join(missing)}, so it cannot "
        f"make the course's environment. {remedy}"
    )


def _clear(target: Target) -> None:
    """Leave an empty .venv that is ours: clear what a set-up left, keep aside what somebody else made."""
    venv = Path(target.venv)
    if os.path.lexists(venv) and not venv.is_dir():
        raise SetupError(f"{venv} is not a folder, and the course needs a folder of that name. Move it away.")
    if venv.is_dir() and any(venv.iterdir()):
        aside = venv.with_name(f".venv.before-course-{time.strftime('%Y%m%d-%H%M%S')}")
        if venv.is_symlink():  # another checkout may live by what it leads to
            place = venv.resolve()
            venv.rename(aside)
            say(f"The .venv here is a link to {place}, which is left alone; the link is kept as {aside}.")
        elif os.path.lexists(target.made_file):
            say("The .venv here is unfinished or damaged, or was made for another place or Python: making it again.")
        else:
            venv.rename(aside)
            say(f"A .venv that ./course did not make was here; it is kept as {aside}.")
    venv.mkdir(exist_ok=True)
    target.made_file.write_text("Made by ./course, which may clear this folder and make it again.\n")
    for entry in venv.iterdir():
        if entry == target.made_file:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def _explain(error: OSError, target: Target) -> str:
    if error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", None)):
        return disk_full()
    where = error.filename or target.root
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        keeper = _other_keeper(target.root)
        if keeper:
            return (
                f"{target.root} is kept by {keeper}, and its environment is not ready, or not for you to read. "
                f"Ask {keeper} to run  {os.path.join(target.root, 'course')} lab --share  which makes it ready and "
                "says what others cannot read; or clone the course into a folder of your own."
            )
        return (
            f"{where} cannot be written ({error.strerror}), and the course keeps its environment in "
            f"{target.venv}. Clone the course into a folder of your own."
        )
    return f"{where}: {error.strerror or error}. The environment is unfinished and will not be used. {AGAIN}"


def _other_keeper(root: str) -> str:
    """The user who keeps this course, where that is somebody else; their number where they have no name."""
    if not hasattr(os, "getuid"):
        return ""
    number = os.stat(root).st_uid
    if number == os.getuid():
        return ""
    try:
        import pwd

        return pwd.getpwuid(number).pw_name
    except (ImportError, KeyError):
        return f"user {number}"
