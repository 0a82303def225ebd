"""Clusters that a whole notebook shares, so that a check or a cell need not start its own."""

from __future__ import annotations

import threading
from typing import Any

from course_lib.cluster.api.arguments import MOST_RANKS, checked_int
from course_lib.cluster.api.cluster import Cluster

__all__ = ["shared_cluster"]

_clusters: dict[int, Cluster] = {}
_lock = threading.Lock()


def shared_cluster(world_size: int, **settings: Any) -> Cluster:
    """The cluster of ``world_size`` ranks that this notebook keeps warm; made at the first call.

    ``settings`` (see ``Cluster``) count when it is made; asking for others later closes it and makes a new one.
    """
    world_size = checked_int(world_size, "world_size", most=MOST_RANKS)
    with _lock:
        cluster = _clusters.get(world_size)
        if cluster is None or cluster.is_closed or (settings and settings != cluster.made_with):
            if cluster is not None:
                cluster.close()
            cluster = _clusters[world_size] = Cluster(world_size, **settings)
            cluster.made_with = settings
        return cluster
