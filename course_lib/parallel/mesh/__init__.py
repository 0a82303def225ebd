"""Lesson 09, meshes: data, pipeline and tensor parallelism at once, each along an axis of its own.

``course_lib/layouts/mesh.py`` is the mesh itself, as data. Read ``groups.py`` (its process groups), ``on_mesh.py`` (the
strategies of the rooms before, put together), then what goes wrong in between: ``data.py`` (who sees which samples),
``seeds.py``, ``boxes.py`` (who holds what), ``clipping.py``, ``checkpoint.py``; ``watching.py`` measures a step.
``mesh_trainer.py`` has a whole training step, as learners build it at the end of lesson 09.
For lesson 11, ``paced_model.py`` is a model whose computing is a wait, and ``scaled_down_job.py`` runs a scaled-down
plan. Production code uses ``torch.distributed.device_mesh.init_device_mesh``; torchtitan shows all of it put together.
"""

from __future__ import annotations

from course_lib.base.lazy import loads_when_used

_HOME_OF = {
    "DataShare": "data",
    "MeshGroups": "groups",
    "MeshTrainer": "mesh_trainer",
    "OnMesh": "on_mesh",
    "PacedTransformer": "paced_model",
    "PlanRun": "scaled_down_job",
    "regret": "scaled_down_job",
    "run_plan": "scaled_down_job",
    "Box": "boxes",
    "clip_gradients": "clipping",
    "gradient_norm": "clipping",
    "load_on_mesh": "checkpoint",
    "boxes_of": "boxes",
    "watched_mesh_step": "watching",
    "WatchedRank": "watching",
    "save_on_mesh": "checkpoint",
    "seed_for_data": "seeds",
    "seed_of": "seeds",
}

__all__ = sorted(_HOME_OF)
__getattr__, __dir__ = loads_when_used(__name__, _HOME_OF)
