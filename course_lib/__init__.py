"""One Model, Many GPUs: the library under the lessons.

Names load when they are first used, so that importing the package is cheap.
"""

from __future__ import annotations

from typing import Any

from course_lib.lazy import loads_when_used

__version__ = "0.1.0"

_HOME_OF = {
    "Cluster": "cluster",
    "Rank": "cluster",
    "shared_cluster": "cluster",
    "Link": "cluster",
    "Links": "cluster",
    "pace": "cluster",
    "machine": "devices",
    "calibrate": "meter.calibration",
    "Predict": "learn",
    "check": "learn",
    "hint": "learn",
    "solution": "learn",
    "quiz": "learn",
    "progress": "learn",
}

__all__ = [*_HOME_OF, "__version__"]


def load_ipython_extension(shell: Any) -> None:
    """``%load_ext course_lib``: the cell magic ``%%ranks``."""
    from course_lib.cluster import magic

    magic.register(shell)


__getattr__, __dir__ = loads_when_used(__name__, _HOME_OF)
