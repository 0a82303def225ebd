"""An answer runs here: watched, within a time limit, its output filtered, its state compared.

In the order to read:

- ``call_watcher.py``: did the learner's code call what it was to write itself? Watched while it runs
- ``cpu_time_limit.py``: CPU time limit of a learner's code
- ``forbidden_names.py``: which forbidden functions an answer names
- ``output_filter.py``: filters captured output: keeps what the learner printed, drops PyTorch's warnings and the
  course's own lines
- ``salted_hash.py``: Python's own hash of text and bytes, salted by rank, as under torchrun
- ``sandbox.py``: run a learner's code so that it can neither stop the notebook nor change it
- ``state_guard.py``: switches of this process that an answer has turned and not turned back
"""
