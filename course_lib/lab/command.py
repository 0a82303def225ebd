"""The command line of `course lab`: which folder, what came into it, and JupyterLab until it is stopped.

JupyterLab runs inside this process. So the token never stands on a command line, where every user of a shared machine
could read it, and the address is told once it answers, not while its port only seems free.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import sys
import time
from collections.abc import Sequence
from typing import Any, NoReturn

from course_lib.lab.folder import FIRST_LESSON, START_PAGE, LessonFolder, find_place
from course_lib.lab.options import LOOPBACK, STYLES, idle_minutes, lab_options, names_of
from course_lib.lab.welcome import about_folder, about_idle, browser_missing, welcome

__all__ = ["main"]

# These make JupyterLab print something and end.
_PRINTS_AND_ENDS = {"--help-all", "--version", "--generate-config", "--show-config", "--show-config-json"}
_HELP = f"""\
course lab [--folder DIR] [options of `jupyter lab`]
course lab --open 04a [--folder DIR] [options of `jupyter lab`]
course lab --reset 04a [--folder DIR]
course lab --prepare [--folder DIR]
course lab --share

Opens JupyterLab at {FIRST_LESSON}: on {LOOPBACK} only, with a token, on a free port.

--folder DIR   your lessons lie in DIR. The command never overwrites what you have changed there: a newer edition of a
               lesson comes beside yours. COURSE_FOLDER names the folder for good. Without either it is the clone, if
               you can write there. Otherwise, and where pip has installed the course, it is a folder in your home.
--open 04a     opens at this lesson, as `course find` names it. `--open start` opens your start page.
--reset 04a    puts back a lesson as it was at the start, and keeps yours under a name with the date.
--prepare      brings the lessons into your folder and ends, for a hub that opens JupyterLab itself.
--share        for the user who keeps a course that others only read: prepares it, and says what they cannot read.

Every other option is handed to JupyterLab: --no-browser, --port=9000, --ServerApp.root_dir=...;
`course lab --help-all` lists them. COURSE_IDLE_MINUTES ends kernels that nobody uses, with their ranks."""


class _Words(argparse.ArgumentParser):
    """Our own options among JupyterLab's; what is wrong with them is a ValueError with a sentence."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message}. `course lab --help` shows what it takes, as in --reset 04a.")


def _our_words(argv: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    parser = _Words(add_help=False, allow_abbrev=False)
    parser.add_argument("--folder")
    parser.add_argument("--open")
    parser.add_argument("--reset", action="append", default=[])
    for word in ("--prepare", "--share"):
        parser.add_argument(word, action="store_true")
    return parser.parse_known_args(list(argv))


def main(argv: Sequence[str]) -> int:
    """Run JupyterLab until it is stopped; 2 where the options or this place do not allow it."""
    given = names_of(argv)
    if "--help" in given or "-h" in argv:
        print(_HELP)
        return 0
    if given & _PRINTS_AND_ENDS:
        from jupyterlab.labapp import LabApp

        LabApp.launch_instance(argv=list(argv))
        return 0
    try:
        ours, rest = _our_words(argv)
        place = find_place(ours.folder)
        if ours.share:
            from course_lib.lab.share import share

            return share(place.course)
        if ours.reset:
            from course_lib.lab.reset import reset

            print("\n".join(reset(place, ours.reset)))
            return 0
        if ours.prepare:
            said = _prepare(place) or [f"You work in {place.course} itself: there is nothing to copy."]
            print("\n".join(said))
            return 0
        return _open(place, rest, ours.open)
    except ValueError as error:
        print(f"course lab: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"course lab: {_about(error)}", file=sys.stderr)
        return 1


def _about(error: OSError) -> str:
    where = error.filename or "your folder"
    return (
        f"{where}: {error.strerror or error}. Nothing of yours was changed. Your lessons need a folder that you can "
        "write: `course lab --folder DIR`, or COURSE_FOLDER, names another."
    )


def _open(place: LessonFolder, argv: list[str], lesson: str | None = None) -> int:
    given = names_of(argv)
    idle = idle_minutes(is_shared=place.is_shared)
    first = FIRST_LESSON if lesson is None else _notebook(place, lesson)
    options = lab_options(argv, root=place.folder, token=secrets.token_hex(24), idle=idle, first=first)
    if not given & {"--notebook-dir", "--ServerApp.root_dir"}:
        said = [*_prepare(place), *about_idle(idle)]
        if said:
            print("\n".join(said), flush=True)
    no_browser = browser_missing(given)
    if no_browser and "--no-browser" not in given:
        options.append("--no-browser")
    from course_lib.lab.forks import begin_forks

    started_s = time.time()
    forks = begin_forks(idle)
    try:
        return _serve(options, no_browser=no_browser)
    finally:
        forks.close()
        if place.is_clone and not place.is_shared:
            from course_lib.lab.edition import put_back

            with contextlib.suppress(OSError, ValueError):  # it is no duty: the lessons are whole either way
                put_back(place.course, started_s)


def _notebook(place: LessonFolder, lesson: str) -> str:
    """The notebook of a lesson that is named. Raises ``ValueError`` with the nearest for one that is not there."""
    from course_lib.lab.edition import lesson_named

    if lesson.strip().lower() == "start":
        return START_PAGE
    return lesson_named(place.course, lesson)


def _prepare(place: LessonFolder) -> list[str]:
    """Have the lessons in the learner's folder, and settle what another user's installation leaves open."""
    from course_lib.lab.share import make_fonts, take_fonts

    if place.is_shared:
        # Jupyter prefers the environment that it runs in only to its owner; a kernel of the home would be another.
        os.environ.setdefault("JUPYTER_PREFER_ENV_PATH", "1")
        take_fonts()
    make_fonts()
    if place.is_clone:
        return []
    from course_lib.lab.edition import PICTURES, SOLUTIONS, editions, solved, worked_on
    from course_lib.lab.hand_out import hand_out, link_or_copy, remove_link

    remove_link(place.folder / PICTURES)  # an older course had one there
    content = editions(place.course)
    work = {} if place.is_shared or place.is_installed else worked_on(place.course, content)
    if place.is_installed and not place.is_shared:
        # A link would let the learner write into the package, which no `git restore` brings back.
        remove_link(place.folder / SOLUTIONS)
        content |= solved(place.course)
    else:
        link_or_copy(place.course, place.folder, SOLUTIONS)
    return about_folder(place, hand_out(place.folder, content, work=work))


def _serve(options: list[str], *, no_browser: str) -> int:
    try:
        from jupyterlab.labapp import LabApp

        from course_lib.lab.left_bar import close_left_bar
        from course_lib.lab.port import KeepsItsPort

        close_left_bar()
        LabApp.serverapp_class = KeepsItsPort
        app: Any = LabApp.initialize_server(argv=options)
    except (OSError, RuntimeError) as error:
        print(
            f"course lab: JupyterLab cannot start: {error}. It keeps settings and running notebooks in your home "
            "folder; set HOME to a folder that you can write.",
            file=sys.stderr,
        )
        return 1

    # The style sheet of forms and pictures; a learner's own ~/.jupyter/custom/custom.css goes before it.
    app.web_app.settings["static_custom_path"].append(str(STYLES))

    def tell() -> None:
        host = LOOPBACK if app.ip in ("", "0.0.0.0", "localhost") else app.ip
        path = app.base_url + app.default_url.removeprefix(app.base_url).lstrip("/")
        url = f"http://{host}:{app.port}{path}?token={app.identity_provider.token}"
        print(welcome(url, port=app.port, no_browser=no_browser), flush=True)

    # The server has put its binding of the port into the loop; behind that, this runs when the port is its own.
    app.io_loop.add_callback(tell)
    app.start()
    return 0
