"""Memory by what it is for: the ledger, its storages, a balance.

In the order to read:

- ``balance.py``: what a memory ledger hands out
- ``other_threads.py``: wait until other threads have let go of what is over
- ``storages.py``: the book behind the memory ledger
- ``memory.py``: the memory ledger: every live byte of a rank under one label, at each moment and at the peak
"""
