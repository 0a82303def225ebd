"""Whose course it is: one's own clone, or another user's, with one's lessons in a folder of one's own."""

from __future__ import annotations

from pathlib import Path

from course_lib.base.paths import course_command, is_installed
from course_lib.doctor.finding import Finding
from course_lib.doctor.resources import check_folder
from course_lib.lab.folder import find_place, may_write, owner_of
from course_lib.lab.share import not_compiled

__all__ = ["check_course_folder"]


def check_course_folder(root: Path) -> list[Finding]:
    """The course's folder, and the folder for lessons where that is another one."""
    try:
        place = find_place()
    except ValueError as error:
        return [Finding("course folder", "blocked", str(error), "Name another folder by COURSE_FOLDER.")]
    is_own = may_write(root)
    if is_installed(root):
        found = [Finding("course folder", "ok", f"{root}, in the installed package; you work elsewhere")]
        found += [] if is_own else _compiled(root)
    elif is_own:
        found = [check_folder("course folder", root)]
    elif not root.is_dir():
        return [check_folder("course folder", root)]
    else:
        found = [Finding("course folder", "ok", f"{root}, kept by {owner_of(root)}; you read it and work elsewhere")]
        found += _compiled(root)
    if not is_own or not place.is_clone:
        found.append(check_folder("your lessons", place.folder))
    return found


def _compiled(root: Path) -> list[Finding]:
    files = not_compiled(root)
    if not files:
        return []
    detail = f"{len(files)} files of the library are compiled again at every start, as you cannot keep the result"
    advice = f"It costs seconds. Ask {owner_of(root)} to run: {course_command(root)} lab --share"
    return [Finding("compiled files", "warning", detail, advice)]
