"""Ranks on two nodes, timed within and between them, and beside torchrun's.

In the order to read:

- ``job.py``: the job that ranks of the course and of torchrun do alike
- ``nodes.py``: ``course bench nodes``
"""
