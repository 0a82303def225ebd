"""Where the course's files are, and where it keeps what it learns about a machine and its learner.

The files stand in a clone, or in the package that pip has installed; ``wheel`` puts them there.

What is kept lies in two folders, by the habit of each system: a *cache* (may be deleted at any time: measurements of
this machine) and *data* (the learner's own: progress). ``COURSE_HOME`` moves both, for classes that share one account
and for tests.
"""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

__all__ = [
    "INSTALLED",
    "PACKAGE",
    "cache_dir",
    "course_command",
    "course_file",
    "data_dir",
    "is_installed",
    "library_folder",
    "needs_clone",
    "project_root",
    "python_path",
]

INSTALLED = "_course"  # within course_lib: the files of a clone's top level, in a wheel
PACKAGE = "one-model-many-gpus"  # its name for pip
_LIBRARY = "course_lib"


def cache_dir() -> Path:
    """The folder for measurements that can be made again. It may not exist yet."""
    if home := os.environ.get("COURSE_HOME"):
        return Path(home).expanduser() / "cache"
    import platformdirs  # here, since a bare machine that sets COURSE_HOME may lack it

    return platformdirs.user_cache_path(PACKAGE, appauthor=False)


def data_dir() -> Path:
    """The folder for what belongs to the learner: progress. It may not exist yet."""
    if home := os.environ.get("COURSE_HOME"):
        return Path(home).expanduser() / "data"
    import platformdirs

    return platformdirs.user_data_path(PACKAGE, appauthor=False)


# --- The course's own files -------------------------------------------------------------------------------------


def project_root() -> Path:
    """The folder that holds ``notebooks/``, ``assets/`` and ``docs/``: a clone's top level, or one in the package."""
    inside = library_folder() / _LIBRARY / INSTALLED
    return inside if inside.is_dir() else library_folder()


def library_folder() -> Path:
    """The folder that holds ``course_lib/``: a clone's top level, or that of the installed packages."""
    return Path(__file__).resolve().parents[2]


def is_installed(root: Path | None = None) -> bool:
    """Whether the course's files (or those below ``root``) are the package's, and not a clone's: nobody works there."""
    return (root or project_root()) == library_folder() / _LIBRARY / INSTALLED


def course_file(name: str, root: Path | None = None) -> Path:
    """A file by its name in a clone, as ``assets/00_loop.png`` or ``course_lib/examples``, wherever it stands here."""
    place = root or project_root()
    is_of_library = is_installed(place) and name.partition("/")[0] == _LIBRARY
    return (library_folder() if is_of_library else place) / name


def course_command(root: Path | None = None) -> str:
    """What every user of this machine types to start this course: the script of a clone, or the one that pip made."""
    place = root or project_root()
    folder = Path(sysconfig.get_path("scripts")) if is_installed(place) else place
    return str(folder / "course")


def needs_clone(what: str) -> str:
    """A sentence for what an installed package cannot do."""
    return (
        f"{what} needs a clone of the course; this one is a package in {library_folder()}. "
        "`git clone` the course, and type ./course there."
    )


def python_path(*more: str) -> str:
    """A PYTHONPATH by which processes of this interpreter import this very library, then ``more``, then what is set.

    The folder of installed packages is left out: they have it, and before Python's own it could hide some of those.
    """
    library = library_folder()
    is_found = library in {Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib")}
    before = os.environ.get("PYTHONPATH")
    return os.pathsep.join([*([] if is_found else [str(library)]), *more, *([before] if before else [])])
