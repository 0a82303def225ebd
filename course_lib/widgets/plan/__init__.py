"""The explorer of plans.

In the order to read:

- ``choice.py``: what the plan explorer's controls choose, and what the planner says of it
- ``communication_optimal.py``: on how few GPUs a job fits
- ``search.py``: the layouts that the plan explorer looks at
- ``words.py``: what the plan explorer says
- ``missions.py``: missions for the plan explorer
- ``explorer.py``: the plan explorer: the best layout of a job on a cluster, its time and memory by part, and what the
  next ones lose
"""
