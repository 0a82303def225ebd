"""Every strategy beside PyTorch's, in turns.

In the order to read:

- ``capstone.py``: ``course bench capstone``
- ``data_parallel.py``: ``course bench data_parallel``
- ``in_turns.py``: two ways of one thing on the same ranks, in turns
- ``collectives.py``: ``course bench collectives``
- ``ddp.py``: ``course bench ddp``
- ``sharded.py``: ``course bench sharded``
- ``pipeline.py``: ``course bench pipeline``
- ``predict.py``: ``course bench predict``
- ``tensor.py``: ``course bench tensor``
- ``mesh_rivals.py``: training steps of a transformer on a mesh, two ways
- ``mesh.py``: ``course bench mesh``
"""
