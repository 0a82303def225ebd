"""An attempt from end to end: run, rules, cache, record, search.

In the order to read:

- ``attempt_cache.py``: the last attempts with the right weights, so that a check of the very same answer needs no other
  run
- ``hidden_memory.py``: memory that a rank holds past its tensors, by what was seen on it
- ``rule_violations.py``: rules of the capstone, and who has broken one
- ``record.py``: what ``course bench capstone`` has recorded
- ``attempting.py``: an attempt at a job
- ``searching.py``: every mesh of a job, run for real on this machine, on demand
- ``references.py``: A solution for each level, to be held against one's own
"""
