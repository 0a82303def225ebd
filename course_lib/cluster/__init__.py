"""N ranks that work: start them, run functions and cells on them, learn what happened when they fail.

In the order to read:

- ``ports/``: The ports at which gloo's ranks connect: shut once all are connected, and who came is looked at
- ``base/``: What every part of the cluster stands on: a rank, messages between two, process groups
- ``hooks/``: Where communication is heard: hooks round PyTorch's operators, and the operations that are pending
- ``failures/``: What went wrong on the ranks: status of each rank, deadlock detection, failures, the report
- ``launch.py``: the same rank function under PyTorch's own launcher, on one machine or many
- ``leaks/``: What a call left behind: operations never waited for, open groups, threads, shared memory
- ``links/``: Links with a bandwidth and a latency, emulated between ranks; and computing that only waits
- ``state/``: What a call may change in its process and has to leave as it was
- ``process/``: The processes of the ranks: how they start, what reaches them, what comes back
- ``nodes/``: Ranks of several machines: an agent on each, and the line to it
- ``api/``: What a notebook holds: a cluster, its team of ranks and their supervisor, ``%%ranks``
"""

from __future__ import annotations

from course_lib.base.lazy import loads_when_used

_HOME_OF = {
    "Cluster": "api.cluster",
    "CrowdedWarning": "api.arguments",
    "Links": "links.links",
    "NotSendable": "process.serialization",
    "Rank": "base.rank",
    "RankError": "failures.errors",
    "RankFailed": "failures.errors",
    "RankInterrupted": "failures.errors",
    "RankTimeout": "failures.errors",
    "Run": "failures.run",
    "black_box": "failures.hang_dump",
    "exchange": "base.point_to_point",
    "folder_for_ranks": "api.rank_folder",
    "pace": "links.emulated_compute",
    "recv": "base.point_to_point",
    "send": "base.point_to_point",
    "shared_cluster": "api.shared",
    "start": "base.point_to_point",
}

__all__ = sorted(_HOME_OF)
__getattr__, __dir__ = loads_when_used(__name__, _HOME_OF)
