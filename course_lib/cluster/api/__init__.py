"""What a notebook holds: a cluster, its team of ranks and their supervisor, ``%%ranks``.

In the order to read:

- ``arguments.py``: what a cluster is given, checked at the door
- ``rank_layout.py``: where the ranks of a cluster are
- ``placement.py``: placement: nodes, devices and threads of a new cluster, by this notebook's seat, with a sentence
  about them
- ``supervisor.py``: the supervisor of a call
- ``team.py``: one set of started ranks
- ``team_lifecycle.py``: lifecycle of the ranks: started when a call needs them, replaced when a call has left them
  unclean
- ``rendezvous_store.py``: a rendezvous store for code that calls ``init_process_group`` itself, as a script under
  torchrun would
- ``cluster.py``: ``Cluster``: N ranks that work
- ``shared.py``: clusters that a whole notebook shares, so that a check or a cell need not start its own
- ``rank_folder.py``: a temporary folder that a notebook and the ranks of its cluster see, on whichever machines they
  are
- ``magic.py``: ``%%ranks``: a cell that runs on every rank, in a namespace that lasts from cell to cell
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
