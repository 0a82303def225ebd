"""Where communication is heard: hooks round PyTorch's operators, and the operations that are pending.

In the order to read:

- ``comm_hooks.py``: listening in on every collective and every message of this process, at one place
- ``operators.py``: what a call of a ``c10d`` operator asks for, in the words of the course
- ``pending_ops.py``: one message or collective that a rank has begun, and the account of one call
- ``op_tracker.py``: what this rank has begun
"""
