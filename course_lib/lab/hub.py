"""Servers of a hub, made like `course lab`: settings in the environment that they run in, and an extension of theirs.

    python -m course_lib.lab.hub

The environment is that of this Python: on The Littlest JupyterHub, the one of all users. What else its files hold is
kept.
"""

from __future__ import annotations

import atexit
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from course_lib.lab.options import APP_SETTINGS, PAGES, STYLES, idle_minutes

__all__ = ["settle"]

_EXTENSION = {"ServerApp": {"jpserver_extensions": {"course_lib.lab.hub": True}}}


def settle(prefix: Path) -> None:
    """Write into the environment ``prefix`` what its servers and their pages are told.

    Raises:
        ValueError: One of its files holds no JSON object; nothing is changed.
    """
    servers = prefix / "etc" / "jupyter" / "jupyter_server_config.json"
    pages = prefix / "share" / "jupyter" / "lab" / "settings" / "overrides.json"
    settings = {path: _read(path) for path in (servers, pages)}
    for one in (PAGES, _EXTENSION):
        _add(settings[servers], one)
    _add(settings[pages], _read(APP_SETTINGS / pages.name))
    for path, content in settings.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=2) + "\n")


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text()) if path.exists() else {}
    except ValueError as error:
        raise ValueError(f"{path} is no JSON: {error}. Mend it, or put it away.") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path} holds {type(found).__name__}, not settings in {{}}. Mend it, or put it away.")
    return found


def _add(settings: dict[str, Any], ours: Mapping[str, Any]) -> None:
    """Ours into theirs, name by name; what is not ours stays."""
    for name, value in ours.items():
        if isinstance(value, Mapping) and isinstance(settings.get(name), dict):
            _add(settings[name], value)
        else:
            settings[name] = value


def _load_jupyter_server_extension(app: Any) -> None:
    """Called by a server: the style sheet of forms and pictures, and the process that its kernels are forked from.

    A user's own custom.css goes before the style sheet.
    """
    from course_lib.lab.forks import begin_forks

    atexit.register(begin_forks(idle_minutes(is_shared=True)).close)
    app.web_app.settings["static_custom_path"].append(str(STYLES))


if __name__ == "__main__":
    try:
        settle(Path(sys.prefix))
    except ValueError as wrong:
        sys.exit(f"course_lib.lab.hub: {wrong}")
