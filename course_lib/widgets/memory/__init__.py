"""The explorer of memory.

In the order to read:

- ``missions.py``: missions for the memory explorer
- ``explorer.py``: the memory explorer
"""
