"""Where the course keeps what it learns about a machine and its learner.

Two folders, by the habit of each system: a *cache* (may be deleted at any time: measurements of this machine) and
*data* (the learner's own: progress). ``COURSE_HOME`` moves both, for classes that share one account and for tests.
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["cache_dir", "data_dir", "project_root"]

_NAME = "one-model-many-gpus"


def cache_dir() -> Path:
    """The folder for measurements that can be made again. It may not exist yet."""
    if home := os.environ.get("COURSE_HOME"):
        return Path(home).expanduser() / "cache"
    import platformdirs  # here, since a bare machine that sets COURSE_HOME may lack it

    return platformdirs.user_cache_path(_NAME, appauthor=False)


def data_dir() -> Path:
    """The folder for what belongs to the learner: progress. It may not exist yet."""
    if home := os.environ.get("COURSE_HOME"):
        return Path(home).expanduser() / "data"
    import platformdirs

    return platformdirs.user_data_path(_NAME, appauthor=False)


def project_root() -> Path:
    """The folder that holds ``notebooks/`` and ``course_lib/``: a checkout of the course."""
    return Path(__file__).resolve().parent.parent
