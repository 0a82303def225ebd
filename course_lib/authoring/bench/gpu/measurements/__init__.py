"""What ``course bench gpu`` measures, a step each.

In the order to read:

- ``backends.py``: which back ends a step can try here
- ``overlap.py``: step ``overlap``
- ``strategies.py``: step ``strategies``
- ``nccl_log.py``: what NCCL itself was asked for, from the log that it writes with NCCL_DEBUG=INFO and
  NCCL_DEBUG_SUBSYS=COLL
- ``meter.py``: step ``meter``
- ``sizes.py``: the transformers that the steps train
- ``memory.py``: step ``memory``
- ``peak.py``: step ``peak``
- ``precision.py``: step ``precision``
- ``timeline.py``: step ``timeline``
"""
