"""The explorer of memory.

In the order to read:

- ``missions.py``: missions for the memory explorer
- ``explorer.py``: the memory explorer: choose batch size, optimizer, precision and recomputation (activation
  checkpointing), and see where the bytes go
"""
