"""What a call left behind: operations never waited for, open groups, threads, shared memory.

In the order to read:

- ``collect.py``: what a call has left on one rank, gathered there when its function is over
- ``compare.py``: what a call has left on its ranks, compared across them and said in sentences
- ``shared_memory.py``: shared memory that a function has made by name and not removed
"""
