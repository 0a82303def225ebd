"""JupyterLab's first layout: the left bar is closed, so that a lesson has the width, also at 200 % zoom.

Only a home in which JupyterLab was never open gets it; from then on the layout is the learner's own.
"""

from __future__ import annotations

import contextlib
import json

__all__ = ["close_left_bar"]

_NAME = "default"
_BAR = {"collapsed": True, "visible": True, "widgets": [], "widgetStates": {}}
_LAYOUT = {
    "main": {"dock": None},
    "down": {"size": 0, "widgets": []},
    "left": _BAR,
    "right": _BAR,
    "relativeSizes": [0, 1, 0],
}


def close_left_bar() -> bool:
    """Keep a layout with its side bars closed, where none is kept; whether it did. It may fail in silence."""
    with contextlib.suppress(Exception):
        from jupyterlab.commands import get_workspaces_dir
        from jupyterlab_server.workspaces_handler import WorkspacesManager

        manager = WorkspacesManager(get_workspaces_dir())
        if not manager.load(_NAME)["data"]:
            kept = {"data": {"layout-restorer:data": _LAYOUT}, "metadata": {"id": _NAME}}
            manager.save(_NAME, json.dumps(kept))
            return True
    return False
