"""``course pictures``: draw the pictures of the lessons into ``assets/``, again; and take that of README."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from course_lib.base.paths import is_installed, needs_clone, project_root

if TYPE_CHECKING:
    from course_lib.authoring.pictures.gallery import LessonPicture

__all__ = ["main"]

_FRONT = "front"


def main(argv: Sequence[str] | None = None, *, folder: Path | None = None) -> int:
    """Run ``course pictures [NN ... | front] [--only NAME] [--list]``.

    Gives 0 well, 1 without a folder or a browser, 2 for an unknown word.
    """
    args = _parser().parse_args(argv)
    from course_lib.authoring.pictures.gallery import MEASURED, NoSuchPicture, pictures_of, the_one

    if args.lessons == [_FRONT]:
        if is_installed():
            print(f"course pictures: {needs_clone('Taking it again')}", file=sys.stderr)
            return 1
        place = folder or project_root() / "assets"
        if place.is_dir():
            from course_lib.authoring.pictures.front import take_front

            return take_front(place, project_root())
    try:
        chosen = pictures_of(args.lessons)
        if args.only is not None:
            chosen = [the_one(args.only, chosen)]
    except NoSuchPicture as error:
        print(f"course pictures: {error}", file=sys.stderr)
        return 2
    if args.list:
        _list(chosen)
        return 0
    if folder is None and is_installed():
        print(f"course pictures: {needs_clone('Drawing them again')}", file=sys.stderr)
        return 1
    folder = folder or project_root() / "assets"
    if not folder.is_dir():
        print(f"course pictures: there is no folder {folder}; run it in a clone of the course.", file=sys.stderr)
        return 1
    left_alone = {picture.title for picture in chosen if picture.title in MEASURED and args.only is None}
    _draw([picture for picture in chosen if picture.title not in left_alone], folder)
    for title in sorted(left_alone):
        print(f"{title} shows a real run and is left as it is; --only {title} runs and draws it again")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="course pictures", description="Draw the pictures of the lessons into assets/, again."
    )
    parser.add_argument(
        "lessons",
        nargs="*",
        metavar="NN",
        help="lesson numbers (all when none is given), or `front` for README's picture, which takes a browser",
    )
    parser.add_argument("--only", metavar="NAME", help="draw a single picture, such as 07_formula")
    parser.add_argument("--list", action="store_true", help="name the pictures and draw none")
    return parser


def _list(pictures: Sequence[LessonPicture]) -> None:
    from course_lib.authoring.pictures.gallery import MEASURED

    for picture in pictures:
        print(picture.title + ("  (of a real run; drawn with --only)" if picture.title in MEASURED else ""))


def _draw(pictures: Sequence[LessonPicture], folder: Path) -> None:
    for lesson, group in groupby(pictures, key=lambda picture: picture.lesson):
        drawn = list(group)
        changed = [picture.title for picture in drawn if picture.save(folder)]
        count = f"{len(drawn)} picture{'' if len(drawn) == 1 else 's'}"
        print(f"lesson {lesson}: {count}, " + (f"changed: {', '.join(changed)}" if changed else "unchanged"))
