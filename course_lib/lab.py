"""The verb `lab`: JupyterLab on this machine's loopback address, behind a token, opened at the first lesson.

It runs JupyterLab inside this process. So the token never stands on a command line, where every user of a
shared machine could read it, and the address is told once it answers, not while its port only seems free.
"""

from __future__ import annotations

import argparse
import getpass
import os
import secrets
import socket
import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from course_lib import paths

__all__ = ["FIRST_LESSON", "lab_options", "lessons_folder", "main", "welcome"]

FIRST_LESSON = "notebooks/00_start_here.ipynb"
_LOOPBACK = "127.0.0.1"
_PAGE = Path(__file__).parent / "forms" / "page"  # custom.css: pictures follow the theme
_SETTINGS = Path(__file__).parent / "lab_settings"  # overrides.json: the course's own defaults
# A text browser counts as a browser for Python, but cannot show JupyterLab.
_TEXT_BROWSERS = {"www-browser", "links", "elinks", "lynx", "w3m"}
# These make JupyterLab print something and end.
_PRINTS_AND_ENDS = {"--help-all", "--version", "--generate-config", "--show-config", "--show-config-json"}
_HELP = f"""\
course lab [options of `jupyter lab`]

Opens JupyterLab at {FIRST_LESSON}: on {_LOOPBACK} only, with a token, on a free port. Every
option is handed to JupyterLab: --no-browser, --port=9000, --ServerApp.root_dir=...; `course lab --help-all`
lists them."""


def lessons_folder() -> Path:
    """The folder to open: the checkout that the library lies in, or else the one that this was typed in."""
    places = [paths.project_root(), Path.cwd()]
    for place in places:
        if (place / FIRST_LESSON).is_file():
            return place
    looked = " nor in ".join(dict.fromkeys(map(str, places)))
    raise ValueError(
        f"there is no {FIRST_LESSON} in {looked}. Type this in a clone of the course; if its notebooks are "
        "missing there, `course build` makes them."
    )


def _first_port() -> int:
    """Where to look first for a free port: a place for each user, as a class starts all at the same moment."""
    return 8888 + (os.getuid() % 1000 if hasattr(os, "getuid") else 0)


def _names(argv: Sequence[str]) -> set[str]:
    return {word.split("=", 1)[0] for word in argv if word.startswith("--")}


def lab_options(argv: Sequence[str], *, root: Path, token: str) -> list[str]:
    """JupyterLab's options: the learner's own, and ours wherever they gave none of that kind.

    Raises:
        ValueError: The options would switch the token off.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--IdentityProvider.token", "--ServerApp.token", "--NotebookApp.token", dest="token")
    own_token = parser.parse_known_args(list(argv))[0].token
    if own_token is not None and own_token.strip("'\" ") == "":
        raise ValueError(
            "an empty token would let every user of this machine run code as you, so `course lab` keeps one. "
            "Leave the option out, or give a token of your own."
        )
    given = _names(argv)
    ours = [
        ({"--ip", "--ServerApp.ip"}, f"--ServerApp.ip={_LOOPBACK}"),
        ({"--port", "--ServerApp.port"}, f"--ServerApp.port={_first_port()}"),
        ({"--port-retries", "--ServerApp.port_retries"}, "--ServerApp.port_retries=50"),
        ({"--notebook-dir", "--ServerApp.root_dir"}, f"--ServerApp.root_dir={root}"),
        (
            {"--LabApp.default_url", "--ServerApp.default_url"},
            f"--LabApp.default_url=/lab/tree/{FIRST_LESSON}",
        ),
        # The glossary opens as a page to read, and no window asks about news at the first start.
        ({"--LabApp.app_settings_dir"}, f"--LabApp.app_settings_dir={_SETTINGS}"),
        ({"--custom-css", "--LabApp.custom_css"}, "--LabApp.custom_css=True"),
        ({"--debug", "--log-level", "--Application.log_level", "--ServerApp.log_level"}, "--log-level=WARN"),
    ]
    options = [option for names, option in ours if not names & given]
    if own_token is None:
        options.append(f"--IdentityProvider.token={token}")
    if hasattr(os, "geteuid") and os.geteuid() == 0 and "--allow-root" not in given:
        options.append("--allow-root")  # a container's only user; the address and the token still guard it
    return [*options, *argv]


def _browser_missing(given: set[str]) -> str:
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
            f"    ssh -N -L {port}:{_LOOPBACK}:{port} {_user()}@{socket.gethostname()}",
        ]
    lines.append("The address holds a token: who has it can run code as you. Ctrl-C, twice, ends JupyterLab.")
    return "\n".join(lines)


def _serve(options: list[str], *, no_browser: str) -> int:
    try:
        from jupyterlab.labapp import LabApp

        app: Any = LabApp.initialize_server(argv=options)
    except (OSError, RuntimeError) as error:
        print(
            f"course lab: JupyterLab cannot start: {error}. It keeps settings and running notebooks in your home "
            "folder; set HOME to a folder that you can write.",
            file=sys.stderr,
        )
        return 1

    # The style sheet of forms and pictures; a learner's own ~/.jupyter/custom/custom.css goes before it.
    app.web_app.settings["static_custom_path"].append(str(_PAGE))

    def tell() -> None:
        host = _LOOPBACK if app.ip in ("", "0.0.0.0", "localhost") else app.ip
        path = app.base_url + app.default_url.removeprefix(app.base_url).lstrip("/")
        url = f"http://{host}:{app.port}{path}?token={app.identity_provider.token}"
        print(welcome(url, port=app.port, no_browser=no_browser), flush=True)

    # The server has put its binding of the port into the loop; behind that, this runs when the port is its own.
    app.io_loop.add_callback(tell)
    app.start()
    return 0


def main(argv: Sequence[str]) -> int:
    """Run JupyterLab until it is stopped; 2 where the options or this place do not allow it."""
    given = _names(argv)
    if "--help" in given or "-h" in argv:
        print(_HELP)
        return 0
    if given & _PRINTS_AND_ENDS:
        from jupyterlab.labapp import LabApp

        LabApp.launch_instance(argv=list(argv))
        return 0
    try:
        options = lab_options(argv, root=lessons_folder(), token=secrets.token_hex(24))
    except ValueError as error:
        print(f"course lab: {error}", file=sys.stderr)
        return 2
    no_browser = _browser_missing(given)
    if no_browser and "--no-browser" not in given:
        options.append("--no-browser")
    return _serve(options, no_browser=no_browser)
