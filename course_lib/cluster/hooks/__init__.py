"""Where communication is heard: hooks round PyTorch's operators, and the operations that are pending.

In the order to read:

- ``comm_hooks.py``: where all communication of this process is heard
- ``operators.py``: arguments of ``c10d`` operators, read into one form for the meter and for emulated links
- ``pending_ops.py``: A pending operation: one message or collective that a rank has started
- ``op_tracker.py``: tracker of operations: every message and collective that Python starts on this rank, from its start
  to its wait
"""
