"""What a notebook holds: a cluster, its team of ranks and their supervisor, ``%%ranks``.

In the order to read:

- ``arguments.py``: what a cluster is given, checked at the door
- ``placement.py``: where the ranks of a new cluster go
- ``supervisor.py``: watching ranks at work
- ``team.py``: one set of started ranks
- ``team_lifecycle.py``: which team of ranks a cluster has at the moment
- ``cluster.py``: ``Cluster``
- ``shared.py``: clusters that a whole notebook shares, so that a check or a cell need not start its own
- ``magic.py``: ``%%ranks``
- ``notebook.py``: what a notebook gets when one of its cells imports the cluster
"""

from __future__ import annotations


def _prepare_notebook() -> None:
    """In a notebook's cell: give it ``%%ranks``, and have the fork server import torch while the learner reads."""
    import sys

    if "IPython" in sys.modules:
        from course_lib.cluster.api import notebook

        notebook.prepare()


_prepare_notebook()
