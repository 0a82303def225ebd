"""One installation for many users: what its owner prepares once, and what each of the others takes from it.

The others cannot write there. So what Python and matplotlib would keep at a first start is made beforehand: the
compiled form of the library, and matplotlib's list of fonts, which takes seconds to gather.
"""

from __future__ import annotations

import compileall
import contextlib
import importlib.util
import os
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from course_lib.base.paths import INSTALLED, course_command, course_file, is_installed
from course_lib.lab.edition import keep_prints
from course_lib.lab.folder import default_folder, may_write, owner_of
from course_lib.lab.hand_out import write

__all__ = ["closed_to_others", "make_fonts", "not_compiled", "open_to_others", "share", "take_fonts"]

_MOST_SHOWN = 5
# By whether the course is an installed package.
_NEWER = {False: "`git pull`", True: "`pip install --upgrade`"}


def share(course: Path) -> int:
    """Prepare the course for users who only read it; 1, with what to mend, where some of it is closed to them.

    Raises:
        ValueError: Another user keeps this course.
    """
    if not may_write(course):
        raise ValueError(
            f"--share is for the user who keeps the course, and {owner_of(course)} keeps {course}. It works for you "
            f"as it is: `course lab` puts your lessons into {default_folder()}."
        )
    umask = os.umask(0o022)  # what is made here is for all to read, and for nobody else to change
    try:
        compileall.compile_dir(course_file("course_lib", course), quiet=2)
        fonts = _keep_fonts(_kept_fonts())
        fresh = keep_prints(course)
        Path(sys.prefix, ".lock").unlink(missing_ok=True)  # uv's: everybody could hold it, and keep uv waiting
    finally:
        os.umask(umask)
    print(f"{course} is prepared: the library is compiled, {fresh} notebooks are fresh, and {fonts}.")
    wrong = [*closed_to_others(course), *open_to_others(course)]
    if wrong:
        print("\n".join(wrong))
        return 1
    print(
        f"Everybody on this machine can start it by  {course_command(course)} lab  and works in a folder of their own. "
        f"After {_NEWER[is_installed(course)]}, run this again."
    )
    return 0


# --- What others could not read ---------------------------------------------------------------------------------


def closed_to_others(course: Path) -> list[str]:
    """Sentences about files that not everybody can read, and about folders above them that not everybody can enter."""
    python = Path(os.path.realpath(sys.executable))
    found = []
    for place in _places(course):
        shut = [folder for folder in place.parents if not _mode(folder) & stat.S_IXOTH]
        if shut:
            found.append(f"Not everybody can enter {shut[-1]}: {place} must lie elsewhere, below /opt say.")
        files = list(_unreadable(place))
        if files:
            shown = ", ".join(str(path) for path in files[:_MOST_SHOWN])
            more = f" and {len(files) - _MOST_SHOWN} more" if len(files) > _MOST_SHOWN else ""
            found.append(f"Not everybody can read {shown}{more}. To mend it:  chmod -R a+rX {place}")
    shut = [folder for folder in python.parents if not _mode(folder) & stat.S_IXOTH]
    if shut:
        again = "" if is_installed(course) else f":  /usr/bin/python3 {course / 'course'} lab --share"
        found.append(
            f"Not everybody can enter {shut[-1]}, and the Python of the environment is {python}. To mend it, move "
            f"{sys.prefix} away and make it with a Python that all can read{again}"
        )
    return list(dict.fromkeys(found))


def open_to_others(course: Path) -> list[str]:
    """Sentences about files and folders that everybody can change: what one user writes there, the others would run."""
    found = []
    for place in _places(course):
        above = [folder for folder in place.parents if _mode(folder) & 0o1002 == 0o002]  # and /tmp is 0o1777
        files = [*above, *_writable(place)]
        if files:
            shown = ", ".join(str(path) for path in files[:_MOST_SHOWN])
            more = f" and {len(files) - _MOST_SHOWN} more" if len(files) > _MOST_SHOWN else ""
            mend = f"chmod o-w {above[-1]}" if above else f"chmod -R o-w {place}"
            found.append(f"Everybody can change {shown}{more}, and so change what the others run. To mend it:  {mend}")
    return found


def _places(course: Path) -> list[Path]:
    """The course and its environment; a package lies within that."""
    prefix = Path(sys.prefix)
    is_within = is_installed(course) and course.is_relative_to(prefix.resolve())
    return list(dict.fromkeys([*([] if is_within else [course]), prefix]))


def _writable(place: Path) -> Iterator[Path]:
    """Files and folders at and below a place that everybody can write."""
    for name, _, files in os.walk(place):
        for path in (Path(name), *(Path(name, file) for file in files)):
            if not path.is_symlink() and _mode(path) & 0o002:
                yield path


def _unreadable(place: Path) -> Iterator[Path]:
    """Files and folders below a place that lack the rights of others; what git keeps for itself is left out."""
    for name, folders, files in os.walk(place):
        folder = Path(name)
        if (_mode(folder) & 0o005) != 0o005:
            yield folder
        folders[:] = [each for each in folders if each != ".git"]
        for file in files:
            if not _mode(folder / file) & stat.S_IROTH:
                yield folder / file


def _mode(path: Path) -> int:
    try:
        return path.stat().st_mode
    except OSError:  # a link to nowhere is closed to nobody
        return 0o777


# --- Compiled files ---------------------------------------------------------------------------------------------


def not_compiled(course: Path) -> list[Path]:
    """Files of the library that every start would compile again, as their compiled form is absent or old."""
    return [path for path in _modules(course) if not _is_compiled(path)]


def _modules(course: Path) -> list[Path]:
    library = course_file("course_lib", course)
    return [path for path in sorted(library.rglob("*.py")) if INSTALLED not in path.parts]


def _is_compiled(path: Path) -> bool:
    try:
        with open(importlib.util.cache_from_source(str(path)), "rb") as file:
            head = file.read(16)
        known = path.stat()
    except OSError:
        return False
    if head[:4] != importlib.util.MAGIC_NUMBER or head[4:8] != bytes(4):  # another Python's, or one by hash
        return head[:4] == importlib.util.MAGIC_NUMBER
    when = int(known.st_mtime) & 0xFFFFFFFF
    return head[8:16] == when.to_bytes(4, "little") + (known.st_size & 0xFFFFFFFF).to_bytes(4, "little")


# --- Fonts ------------------------------------------------------------------------------------------------------


def _kept_fonts() -> Path:
    return Path(sys.prefix) / "share" / "course"


def _keep_fonts(folder: Path) -> str:
    """Gather matplotlib's list of fonts into the environment; what was done, in words."""
    try:
        import matplotlib as mpl
        from matplotlib import font_manager

        name = f"fontlist-v{font_manager.FontManager.__version__}.json"
        folder.mkdir(parents=True, exist_ok=True)
        draft = Path(mpl.get_cachedir()) / name
        if draft.is_file():
            shutil.copyfile(draft, folder / name)
        else:
            font_manager.json_dump(font_manager.fontManager, folder / name)
        (folder / name).chmod(0o644)
    except (ImportError, OSError, AttributeError, TypeError) as error:
        return f"each user's first picture takes some seconds more, as the list of fonts could not be kept ({error})"
    return "matplotlib's list of fonts is kept"


def take_fonts(folder: Path | None = None) -> None:
    """Give this user the list of fonts that the owner has gathered, where they have none. It may fail in silence."""
    with contextlib.suppress(Exception):
        import matplotlib as mpl

        for kept in (folder or _kept_fonts()).glob("fontlist-v*.json"):
            own = Path(mpl.get_cachedir()) / kept.name
            if not own.exists():
                write(own, kept.read_bytes())


def make_fonts() -> subprocess.Popen[bytes] | None:
    """Gather this user's list of fonts beside JupyterLab's start, where they have none; the process that does it.

    Without it the first picture in a new home waits for that, under a red box. It may fail in silence.
    """
    with contextlib.suppress(Exception):
        import matplotlib as mpl

        if not any(Path(mpl.get_cachedir()).glob("fontlist-v*.json")):
            none = subprocess.DEVNULL
            command = [sys.executable, "-c", "import matplotlib.font_manager"]
            maker = subprocess.Popen(command, stdin=none, stdout=none, stderr=none)
            threading.Thread(target=maker.wait, daemon=True).start()
            return maker
    return None
