"""What a learner reads in the terminal: where the lessons are, what came into the folder, how to reach it all."""

from __future__ import annotations

import getpass
import socket
import webbrowser
from pathlib import Path

from course_lib import __version__
from course_lib.base.paths import course_file
from course_lib.lab.edition import SOLUTIONS
from course_lib.lab.folder import START_PAGE, LessonFolder, may_write, owner_of
from course_lib.lab.hand_out import Handed
from course_lib.lab.options import LOOPBACK

__all__ = ["about_folder", "about_idle", "browser_missing", "welcome"]

# A text browser counts as a browser for Python, but cannot show JupyterLab.
_TEXT_BROWSERS = {"www-browser", "links", "elinks", "lynx", "w3m"}


def about_folder(place: LessonFolder, handed: Handed) -> list[str]:
    """Where the lessons lie, and a sentence for each thing that the learner would wonder about."""
    lines = [f"Your lessons lie in {place.folder}; the course itself is {_course(place)}."]
    lessons = sum(_is_lesson(name) for name in handed.new)
    if lessons:
        lines.append(f"{_count(lessons)} came into it.")
        if place.is_installed:
            lines.append(f"Programs to take home lie in {course_file('course_lib/examples', place.course)}.")
    if handed.carried:
        lines += [
            f"{_count(len(handed.carried))} that you have worked on in {place.course} came with your work in it. "
            "What is in the clone is as it was."
        ]
    renewed = [name for name in handed.renewed if _is_lesson(name)]
    if renewed:
        lines.append(f"{_count(len(renewed))} that you had not touched: now the newer edition.")
    for name, beside in handed.beside:
        lines.append(f"{name} has a newer edition. Yours stays as it is; the newer is {Path(beside).name!r}.")
    return lines


def _is_lesson(name: str) -> bool:
    return name.endswith(".ipynb") and not name.startswith(f"{SOLUTIONS}/") and name != START_PAGE


def _course(place: LessonFolder) -> str:
    if place.is_installed and may_write(place.course):
        return f"the installed package, version {__version__}"
    if may_write(place.course):
        return f"in {place.course}"
    return f"in {place.course}, kept by {owner_of(place.course)}, with the solutions to read"


def _count(number: int) -> str:
    return f"{number} lesson part" + ("" if number == 1 else "s")


def about_idle(minutes: int) -> list[str]:
    """That kernels end, and how to have it otherwise; nothing where they stay."""
    if not minutes:
        return []
    return [
        f"A notebook that runs nothing for {minutes} minutes loses its kernel and ranks, to free memory for all. Its "
        "text and outputs stay. COURSE_IDLE_MINUTES sets another time; 0 means no limit."
    ]


def browser_missing(given: set[str]) -> str:
    """Why no browser will open by itself, or an empty text when one will."""
    if "--no-browser" in given:
        return "No browser opens, as you asked"
    if given & {"--browser", "--ServerApp.browser"}:
        return ""
    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return "This machine has no browser to open"
    name = Path(str(getattr(browser, "name", ""))).name
    return f"The only browser here is {name}, which cannot show JupyterLab" if name in _TEXT_BROWSERS else ""


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container may run as a number that has no name
        return "USER"


def welcome(url: str, *, port: int, no_browser: str) -> str:
    """What the learner reads at the start: where the lessons are, how to reach them, how to stop."""
    lines = ["JupyterLab with the lessons is at", f"    {url}"]
    if no_browser:
        lines += [
            f"{no_browser}: copy the address into a browser on this machine.",
            "If you sit at another machine, type this there, leave it running, and open the address there:",
            f"    ssh -N -L {port}:{LOOPBACK}:{port} {_user()}@{socket.gethostname()}",
        ]
    lines.append("The address holds a token: who has it can run code as you. Ctrl-C, twice, ends JupyterLab.")
    return "\n".join(lines)
