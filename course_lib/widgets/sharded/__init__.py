"""The explorer of sharded states.

In the order to read:

- ``choice.py``: what the sharded explorer's controls choose, and what the cost model says of the choice
- ``missions.py``: missions for the sharded explorer
- ``explorer.py``: the sharded explorer: what a rank holds over the course of one step, by the cost model, and on real
  ranks
"""
