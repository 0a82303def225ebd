"""An attempt from end to end: run, rules, cache, record, search.

In the order to read:

- ``attempt_cache.py``: cache of the last attempts with the right weights
- ``hidden_memory.py``: memory that a rank holds past its tensors, by what was seen on it
- ``own_code.py``: how much of a run was the learner's, by what ran on its ranks
- ``record.py``: what ``course bench capstone`` has recorded
- ``references.py``: A solution for each level, to be held against one's own
- ``rule_violations.py``: rules of the capstone, and who has broken one
- ``attempting.py``: an attempt at a job
- ``searching.py``: every mesh of a job, run for real on this machine, on demand
"""
