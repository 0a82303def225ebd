"""One Model, Many GPUs: the library under the lessons.

Names load when they are first used, so that importing the package is cheap.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.1"

_HOME_OF = {
    "Cluster": "course_lib.cluster",
    "Rank": "course_lib.cluster",
    "shared_cluster": "course_lib.cluster",
    "Link": "course_lib.layouts.link",
    "Links": "course_lib.cluster",
    "pace": "course_lib.cluster",
    "machine": "course_lib.devices",
    "calibrate": "course_lib.meter.calibration.calibration",
    "ask": "course_lib.learn",
    "reveal": "course_lib.learn",
    "check": "course_lib.mine.keeping",
    "hint": "course_lib.learn",
    "solution": "course_lib.learn",
    "quiz": "course_lib.learn",
    "planners_side_by_side": "course_lib.learn",
    "problems": "course_lib.learn",
    "progress": "course_lib.learn",
    "start": "course_lib.start_page.page",
    "find": "course_lib.search.shown",
    "build_progress": "course_lib.learn",
    "replicas_side_by_side": "course_lib.learn",
    "side_by_side": "course_lib.learn",
    "bet": "course_lib.learn",
    "settle": "course_lib.learn",
    "scoreboard": "course_lib.learn",
}

__all__ = [*_HOME_OF, "__version__"]


def load_ipython_extension(shell: Any) -> None:
    """``%load_ext course_lib``: the cell magic ``%%ranks``."""
    from course_lib.cluster.api import magic

    magic.register(shell)


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"course_lib has no name {name!r}; it offers {', '.join(sorted(_HOME_OF))}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
