"""Lesson 09, meshes: data, pipeline and tensor parallelism at once, each along an axis of its own.

``course_lib/mesh.py`` is the mesh itself, as data; ``groups.py`` makes its process groups. What it joins is there:
``data``, ``sharded``, ``pipeline`` and ``tensor`` take a group or a list of ranks each (the joining is to come).
Production code uses ``torch.distributed.device_mesh.init_device_mesh``.
"""

from __future__ import annotations

from course_lib.lazy import loads_when_used

_HOME_OF = {"MeshGroups": "groups"}

__all__ = sorted(_HOME_OF)
__getattr__, __dir__ = loads_when_used(__name__, _HOME_OF)
