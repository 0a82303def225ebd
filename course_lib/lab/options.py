"""JupyterLab's options: the learner's own, and the course's wherever they gave none of that kind."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from course_lib.lab.folder import FIRST_LESSON

__all__ = ["APP_SETTINGS", "LOOPBACK", "PAGES", "STYLES", "idle_minutes", "lab_options", "names_of"]

LOOPBACK = "127.0.0.1"
APP_SETTINGS = Path(__file__).parent.parent / "lab_settings"  # overrides.json: the course's own defaults
STYLES = Path(__file__).parent.parent / "forms" / "page"  # custom.css: looks of forms and pictures
# What its pages and kernels need of any server: of `course lab`, and of a hub's.
PAGES: dict[str, dict[str, object]] = {
    # custom.css; and JupyterLab's application, where a form's script finds the texts of pictures (forms/page/keys.js)
    "LabApp": {"custom_css": True, "expose_app_in_browser": True},
    # No language server beside each page: 130 MiB a learner, and no page shows what it finds.
    "LanguageServerManager": {"autodetect": False},
    "MappingKernelManager": {"kernel_manager_class": "course_lib.lab.kernels.CourseKernelManager"},
}
_ALIASES = {"custom_css": "--custom-css", "expose_app_in_browser": "--expose-app-in-browser"}
_MANAGERS = ("MultiKernelManager", "MappingKernelManager", "AsyncMappingKernelManager")
_SHARED_IDLE_MINUTES = 60


def idle_minutes(*, is_shared: bool) -> int:
    """After how many minutes without a cell a kernel ends with its ranks; 0 for never, as in a clone of one's own.

    Raises:
        ValueError: COURSE_IDLE_MINUTES is no whole number of at least 0.
    """
    text = os.environ.get("COURSE_IDLE_MINUTES", "").strip()
    if not text:
        return _SHARED_IDLE_MINUTES if is_shared else 0
    if not (text.isascii() and text.isdigit()):
        raise ValueError(
            f"COURSE_IDLE_MINUTES is {text!r}; it is a whole number of minutes, 0 for kernels that stay: "
            f"{_SHARED_IDLE_MINUTES} say."
        )
    return int(text)


def _first_port() -> int:
    """Where to look first for a free port: a place for each user, as a class starts all at the same moment."""
    return 8888 + (os.getuid() % 1000 if hasattr(os, "getuid") else 0)


def names_of(argv: Sequence[str]) -> set[str]:
    return {word.split("=", 1)[0] for word in argv if word.startswith("--")}


def lab_options(argv: Sequence[str], *, root: Path, token: str, idle: int = 0, first: str = FIRST_LESSON) -> list[str]:
    """JupyterLab's options for the folder ``root``, opened at ``first``; kernels end after ``idle`` minutes without a
    cell, if not 0.

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
    given = names_of(argv)
    ours = [
        ({"--ip", "--ServerApp.ip"}, f"--ServerApp.ip={LOOPBACK}"),
        ({"--port", "--ServerApp.port"}, f"--ServerApp.port={_first_port()}"),
        ({"--port-retries", "--ServerApp.port_retries"}, "--ServerApp.port_retries=50"),
        ({"--notebook-dir", "--ServerApp.root_dir"}, f"--ServerApp.root_dir={root}"),
        (
            {"--LabApp.default_url", "--ServerApp.default_url"},
            f"--LabApp.default_url=/lab/tree/{first}",
        ),
        # The glossary opens as a page to read, and no window asks about news at the first start.
        ({"--LabApp.app_settings_dir"}, f"--LabApp.app_settings_dir={APP_SETTINGS}"),
        ({"--debug", "--log-level", "--Application.log_level", "--ServerApp.log_level"}, "--log-level=WARN"),
    ]
    ours += [_option(kind, name, value) for kind, named in PAGES.items() for name, value in named.items()]
    ours += _about_idle(idle)
    options = [option for names, option in ours if not names & given]
    if own_token is None:
        options.append(f"--IdentityProvider.token={token}")
    if hasattr(os, "geteuid") and os.geteuid() == 0 and "--allow-root" not in given:
        options.append("--allow-root")  # a container's only user; the address and the token still guard it
    return [*options, *argv]


def _option(kind: str, name: str, value: object) -> tuple[set[str], str]:
    """The names by which a learner may give it, and how we do."""
    kinds = _MANAGERS if kind in _MANAGERS else (kind,)
    names = {f"--{one}.{name}" for one in kinds} | ({_ALIASES[name]} if name in _ALIASES else set())
    return names, f"--{kind}.{name}={value}"


def _about_idle(idle: int) -> list[tuple[set[str], str]]:
    """The end of kernels that nobody has used for a while, open tab or not."""
    if not idle:
        return []
    ends = {"cull_idle_timeout": idle * 60, "cull_interval": min(300, idle * 20), "cull_connected": True}
    return [_option("MappingKernelManager", name, value) for name, value in ends.items()]
