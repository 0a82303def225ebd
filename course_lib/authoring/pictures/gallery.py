"""Where the pictures of all lessons hang: find them, draw them, and save them, each in one place."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from course_lib.plot import png

__all__ = ["MEASURED", "LessonPicture", "NoSuchPicture", "lessons", "pictures_of", "the_one"]

# Pictures of a real run: each run takes other times, so equal code draws other bytes.
MEASURED = {"07_studio"}


class NoSuchPicture(ValueError):
    """A lesson or a name that has no picture; the message says what there is."""


@dataclass(frozen=True)
class LessonPicture:
    """One picture of a lesson: its file is ``NN_name.png``."""

    lesson: str
    name: str
    draw: Callable[[], Figure | bytes]
    style: Any  # settings of matplotlib's, by name

    @property
    def title(self) -> str:
        return f"{self.lesson}_{self.name}"

    def png(self) -> bytes:
        """Draw it, whatever this machine's own settings of matplotlib are."""
        with mpl.rc_context():
            mpl.rcdefaults()
            mpl.rcParams.update(self.style)
            drawn = self.draw()
            return drawn if isinstance(drawn, bytes) else png(drawn)

    def save(self, folder: Path) -> bool:
        """Draw it into ``folder``; whether the file is another than before."""
        path, new = folder / f"{self.title}.png", self.png()
        if path.is_file() and path.read_bytes() == new:
            return False
        path.write_bytes(new)
        return True


def lessons() -> list[str]:
    """The numbers of the lessons that have pictures, such as "07"."""
    modules = pkgutil.iter_modules([str(Path(__file__).parent)])
    return sorted(module.name[-2:] for module in modules if module.name.startswith("lesson_"))


def pictures_of(wanted: Iterable[str] = ()) -> list[LessonPicture]:
    """The pictures of the lessons ``wanted``, or of all, in the order of the lessons.

    Raises:
        NoSuchPicture: A lesson that has none.
    """
    known = lessons()
    numbers = [f"0{word}" if len(word) == 1 else word for word in wanted] or known  # 7 is 07
    for number in numbers:
        if number not in known:
            raise NoSuchPicture(f"there is no lesson {number!r} with pictures; there are {', '.join(known)}.")
    found = []
    for number in sorted(set(numbers)):
        module = importlib.import_module(f"course_lib.authoring.pictures.lesson_{number}")
        style = {"font.family": "DejaVu Sans", **getattr(module, "STYLE", {})}
        found += [LessonPicture(number, name, draw, style) for name, draw in module.PICTURES.items()]
    return found


def the_one(name: str, pictures: Iterable[LessonPicture]) -> LessonPicture:
    """The picture called ``name``, with its lesson's number or, where that is enough, without.

    Raises:
        NoSuchPicture: No picture has that name, or several have it.
    """
    word = name.removesuffix(".png")
    by_title = {picture.title: picture for picture in pictures}
    found = [title for title, picture in by_title.items() if word in (title, picture.name)]
    if len(found) == 1:
        return by_title[found[0]]
    if found:
        raise NoSuchPicture(f"{len(found)} pictures are called {name!r}: {', '.join(found)}. Say which.")
    near = get_close_matches(word, [*by_title, *(picture.name for picture in by_title.values())], n=1)
    guess = f" Did you mean {near[0]!r}?" if near else ""
    raise NoSuchPicture(f"no picture is called {name!r}.{guess} `course pictures --list` names them all.")
