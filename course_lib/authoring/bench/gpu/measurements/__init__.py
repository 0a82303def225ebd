"""What ``course bench gpu`` measures, a step each.

In the order to read:

- ``backends.py``: which back ends a step can try here
- ``nccl_log.py``: what NCCL itself was asked for, from the log that it writes with NCCL_DEBUG=INFO and
  NCCL_DEBUG_SUBSYS=COLL
- ``meter.py``: step ``meter``: what the communication meter costs a step of DDP that it watches, as in ``course bench
  meter``
- ``overlap.py``: step ``overlap``: how much of DDP's all-reduces hides behind the backward pass, by the course and by
  PyTorch
- ``sizes.py``: the transformers that the steps train
- ``memory.py``: step ``memory``: the memory ledger against the device's own allocator, and against the formulas of the
  cost model
- ``peak.py``: step ``peak``: what share of the data sheet's peak a training step of lesson 01's transformer reaches
- ``precision.py``: step ``precision``: the same training in float32, TF32, bfloat16 and float16: its loss, its time,
  its memory
- ``strategies.py``: step ``strategies``: a step of every strategy beside PyTorch's own, in turns, within one run
- ``timeline.py``: step ``timeline``: the spans of a timeline against device events and the profiler, also on two
  streams
"""
