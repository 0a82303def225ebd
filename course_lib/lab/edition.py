"""What the course hands out: each lesson as it is for somebody who has not begun it.

A learner's notebook is made from its source, not copied: whoever keeps the course may have tried a lesson in it, and
what they typed is not for the class. Pictures are copied too, since JupyterLab gives a browser no file that a link has
outside of its folder (Tornado since 6.5.9). Solutions are opened, and not fetched: a link leads to them. Only out of a
package that the learner could change they are copied as well: what is typed there would stay in the package.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import json
import sys
from pathlib import Path

from course_lib.base.paths import is_installed
from course_lib.lab.hand_out import write
from course_lib.lab.work import is_same_work, was_run
from course_lib.lessons.info import source_files, tour_file

__all__ = [
    "PICTURES",
    "SOLUTIONS",
    "editions",
    "editions_bytes",
    "keep_prints",
    "lesson_named",
    "pristine",
    "put_back",
    "solved",
    "worked_on",
]

SOLUTIONS = "notebooks/solutions"  # linked to, or handed out
PICTURES = "assets"
_AS_THEY_ARE = ("notebooks/glossary.md", "notebooks/start.ipynb")


def editions(course: Path) -> dict[str, bytes]:
    """The content of every file that a learner gets, by its name below the folder."""
    found = {}
    for name in _names(course):
        found[name] = pristine(course, name)
    for name in _AS_THEY_ARE:
        if (course / name).is_file():
            found[name] = (course / name).read_bytes()
    for picture in sorted((course / PICTURES).glob("*.png")):
        found[f"{PICTURES}/{picture.name}"] = picture.read_bytes()
    return found


def solved(course: Path) -> dict[str, bytes]:
    """The content of every solution, by its name below the folder."""
    files = sorted((course / SOLUTIONS).glob("*.ipynb"))
    return {f"{SOLUTIONS}/{file.name}": file.read_bytes() for file in files}


def editions_bytes(course: Path) -> int:
    """How much a learner gets, nearly: the notebooks as they lie there now, their glossary and their pictures."""
    files = [course / name for name in (*_names(course), *_AS_THEY_ARE)]
    return sum(file.stat().st_size for file in [*files, *(course / PICTURES).glob("*.png")] if file.is_file())


def pristine(course: Path, name: str, *, anew: bool = False) -> bytes:
    """A lesson's notebook without anybody's work; with ``anew`` made of its source in any case."""
    source = course / "notebooks" / "src" / f"{Path(name).stem}.py"
    if not source.is_file() or (not anew and _is_fresh(course, name)):
        return (course / name).read_bytes()
    from course_lib.lessons.convert import learner_notebook, to_text
    from course_lib.lessons.source import read_source

    return to_text(learner_notebook(read_source(source))).encode("utf-8")


def _is_fresh(course: Path, name: str) -> bool:
    """Whether a notebook lies there as its source makes it, as far as is known without making it.

    In a package nobody works; whoever made it may have, and then the notebook was run.
    """
    if not is_installed(course):
        return _print_of(course, name) in _kept_prints()  # it was found fresh before
    try:
        return not was_run((course / name).read_bytes())
    except OSError:
        return False


def keep_prints(course: Path) -> int:
    """Note which notebooks lie there as their sources make them, so that a start need not make them; how many."""
    if not source_files(course):
        return 0
    file = _prints_file()
    file.unlink(missing_ok=True)
    fresh = [name for name in _names(course) if (course / name).is_file()]
    fresh = [name for name in fresh if pristine(course, name) == (course / name).read_bytes()]
    write(file, json.dumps([_print_of(course, name) for name in fresh]).encode())
    return len(fresh)


def _prints_file() -> Path:
    return Path(sys.prefix) / "share" / "course" / "fresh-notebooks.json"


def _print_of(course: Path, name: str) -> str:
    """A hash of a notebook and its source together; a change of either, and it is another."""
    both = [course / "notebooks" / "src" / f"{Path(name).stem}.py", course / name]
    return hashlib.sha256(b"\0".join(path.read_bytes() if path.is_file() else b"" for path in both)).hexdigest()


def _kept_prints() -> set[str]:
    with contextlib.suppress(OSError, ValueError, TypeError):
        return set(json.loads(_prints_file().read_text()))
    return set()


def worked_on(course: Path, handed: dict[str, bytes]) -> dict[str, bytes]:
    """The lessons of a clone that are no longer as they were handed out: the work of who has worked there."""
    found = {}
    for name, content in handed.items():
        file = course / name
        if file.suffix != ".ipynb" or not file.is_file():
            continue
        now = file.read_bytes()
        if not is_same_work(name, now, content):
            found[name] = now
    return found


def put_back(course: Path, since_s: float) -> list[str]:
    """Make lessons of a clone that were only opened, and saved after ``since_s``, as they were; their names.

    Else git would not pull a newer edition over them.
    """
    back = []
    for name in _names(course):
        file = course / name
        if not file.is_file() or file.stat().st_mtime < since_s:
            continue
        now, content = file.read_bytes(), pristine(course, name, anew=True)
        if now != content and is_same_work(name, now, content):
            write(file, content)
            back.append(name)
    return back


def lesson_named(course: Path, word: str) -> str:
    """The notebook that a learner means by "04a", "4a" or its whole name, below the course.

    Raises:
        ValueError: There is none, or the word stands for several parts.
    """
    names = {Path(name).stem: name for name in _names(course)}
    labels = {stem.partition("_")[0]: stem for stem in names}
    asked = Path(word.strip()).name.removesuffix(".ipynb").lower()
    padded = asked.zfill(len(asked) + 1) if len(asked.rstrip("abcdefghijklmnopqrstuvwxyz")) == 1 else asked
    for stem in (asked, labels.get(asked, ""), labels.get(padded, "")):
        if stem in names:
            return names[stem]
    parts = [label for label in labels if padded and label.startswith(padded)]
    if parts and len(padded) >= 2:
        raise ValueError(f"lesson {padded} comes in parts: {', '.join(parts)}. Say which one.")
    near = difflib.get_close_matches(padded, [*labels, *names], n=1, cutoff=0.4)
    guess = f" The nearest is {near[0]}." if near else ""
    raise ValueError(f"there is no lesson {word!r}; they are {', '.join(labels)}.{guess}")


def _names(course: Path) -> list[str]:
    sources = [f"notebooks/{path.stem}.ipynb" for path in (*source_files(course), *tour_file(course))]
    if sources:
        return sources
    folder = course / "notebooks"
    built = [*sorted(folder.glob("[0-9][0-9]*_*.ipynb")), *folder.glob("tour.ipynb")]
    return [f"notebooks/{path.name}" for path in built]
