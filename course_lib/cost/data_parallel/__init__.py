"""What data parallelism costs: DDP's step with its buckets, and sharded states.

In the order to read:

- ``sharded.py``: sharded data parallelism in formulas
- ``sharded_step.py``: the memory of a rank over the course of one ZeRO-3 step
- ``sharded_stages.py``: the memory of a rank over the course of one step, for any stage of ZeRO: 0 is DDP, 3 is
  ``sharded_moments``
- ``step.py``: the time of a data-parallel training step
- ``scaling.py``: scaling of data-parallel training: the same step on more and more ranks, up to the break-even, where
  it stops to pay
"""
