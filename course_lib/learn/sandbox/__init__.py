"""An answer runs here: watched, within a time limit, its output filtered, its state compared.

In the order to read:

- ``call_watcher.py``: did the learner's code call what it was to write itself? Watched while it runs
- ``forbidden_names.py``: which forbidden functions an answer names
- ``output_filter.py``: of what is written while an answer is tried
- ``cpu_time_limit.py``: how long a learner's code has run by its own doing
- ``sandbox.py``: run a learner's code so that it can neither stop the notebook nor change it
- ``state_guard.py``: switches of this process that an answer has turned and not turned back
"""
