"""Lesson 09, meshes: data, pipeline and tensor parallelism at once, each along an axis of its own.

Nothing is built here yet. What it will join is there: ``data``, ``pipeline`` and ``tensor`` take a group or a list of
ranks each. Production code uses ``torch.distributed.device_mesh.init_device_mesh``.
"""
