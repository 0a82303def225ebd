"""N ranks that work: start them, run functions and cells on them, learn what happened when they fail."""

from course_lib.cluster.arguments import CrowdedWarning
from course_lib.cluster.black_box import black_box
from course_lib.cluster.cluster import Cluster
from course_lib.cluster.errors import RankError, RankFailed, RankInterrupted, RankTimeout
from course_lib.cluster.links import Links
from course_lib.cluster.pacing import pace
from course_lib.cluster.point_to_point import exchange, recv, send, start
from course_lib.cluster.rank import Rank
from course_lib.cluster.run import Run
from course_lib.cluster.shared import shared_cluster
from course_lib.cluster.wire import NotSendable

__all__ = [
    "Cluster",
    "CrowdedWarning",
    "Links",
    "NotSendable",
    "Rank",
    "RankError",
    "RankFailed",
    "RankInterrupted",
    "RankTimeout",
    "Run",
    "black_box",
    "exchange",
    "pace",
    "recv",
    "send",
    "shared_cluster",
    "start",
]


def _prepare_notebook() -> None:
    """In a notebook's cell: give it ``%%ranks``, and have the fork server import torch while the learner reads."""
    import sys

    if "IPython" in sys.modules:
        from course_lib.cluster import notebook

        notebook.prepare()


_prepare_notebook()
