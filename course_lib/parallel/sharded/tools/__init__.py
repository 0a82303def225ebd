"""Round a sharded model: checkpoints, unsharded weights, what is held over time.

In the order to read:

- ``checkpoint.py``: checkpoints of shards: every rank writes its own rows, and any number of ranks reads them again
- ``watching.py``: steps of a stack of layers, in any stage of ZeRO, under the memory ledger
- ``whole_matrices.py``: optimizers that need whole matrices, on shards
- ``whole_weights.py``: whole parameters for a moment
"""
