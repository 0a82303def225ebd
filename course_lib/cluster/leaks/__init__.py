"""What a call left behind: operations never waited for, open groups, threads, shared memory.

In the order to read:

- ``collect.py``: leak report of one rank after a call
- ``compare.py``: leak report of a call
- ``shared_memory.py``: leaked shared memory: blocks that a function made by name and did not remove
"""
