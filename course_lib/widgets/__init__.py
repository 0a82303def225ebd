"""Explorers to turn a formula by hand. Each works by keyboard, redraws in under 50 ms and says in words what
it shows; the plan explorer, which works out hundreds of layouts, in under 80 ms.

In the order to read:

- ``explorer.py``: what explorers have in common: controls above a picture, lines that say the same, missions, a redraw
- ``rank_explorer.py``: an explorer whose choice real ranks can run
- ``collective_explorer.py``: the collective explorer: step forward and back through a collective that real ranks have
  run
- ``controls.py``: the controls of the explorers, each with its name in front, and what they say in words
- ``bucket_explorer.py``: the bucket explorer: how large a bucket should be, on a link of your choice, predicted and
  measured
- ``goal.py``: A mission for the schedule studio
- ``matmul/``: The explorer of a split matmul
- ``memory/``: The explorer of memory
- ``mission_progress.py``: the missions of an explorer, and how they stand
- ``context/``: The explorer of context parallelism
- ``mesh/``: The explorer of meshes
- ``paired.py``: A slider and a number box that show the same number
- ``plan/``: The explorer of plans
- ``schedule_studio.py``: the schedule studio: choose a pipeline schedule or write one, see it judged and simulated as
  you type, then run it
- ``sharded/``: The explorer of sharded states
"""

from __future__ import annotations

from course_lib.base.lazy import loads_when_used

_HOME_OF = {
    "AddedMemory": "memory.missions",
    "BucketExplorer": "bucket_explorer",
    "CollectiveExplorer": "collective_explorer",
    "ContextChoice": "context.choice",
    "ContextExplorer": "context.explorer",
    "Goal": "schedule_studio",
    "LargestBatch": "memory.missions",
    "MatmulExplorer": "matmul.explorer",
    "MemoryExplorer": "memory.explorer",
    "MeshChoice": "mesh.choice",
    "MeshExplorer": "mesh.explorer",
    "OwnCut": "plan.choice",
    "PlanChoice": "plan.choice",
    "PlanExplorer": "plan.explorer",
    "ScheduleStudio": "schedule_studio",
    "ShardedChoice": "sharded.choice",
    "ShardedExplorer": "sharded.explorer",
    "every_mesh_choice": "mesh.choice",
    "run_on_ranks": "schedule_studio",
}

__all__ = sorted(_HOME_OF)
__getattr__, __dir__ = loads_when_used(__name__, _HOME_OF)
