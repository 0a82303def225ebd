"""What a step on a mesh of several axes sends, holds and takes.

In the order to read:

- ``layout_step.py``: how long a step of a layout takes, in closed form
- ``mesh_parts.py``: what a rank of a mesh holds of a transformer, by shapes
- ``mesh_program.py``: what a rank of a mesh does in a training step, in order
- ``link_bytes.py``: what a training step on a mesh sends
- ``all_reduce_at_scale.py``: the same all-reduce on more and more ranks, 8 to 16,384: which part of its time grows, and
  which does not
- ``mesh_state.py``: what each rank of a mesh keeps of a transformer
- ``mesh_time.py``: how long a training step on a mesh takes
- ``scaled_job.py``: A job scaled down: a small transformer, nodes of a few ranks, slow links, and how long its
  computing should take
"""
