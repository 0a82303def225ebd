"""What one device computes and holds: parameters, activations, states, FLOPs.

In the order to read:

- ``layer_shapes.py``: the matrix work of a model, as data
- ``architectures.py``: the matrix work of the course's models, written down from their sizes alone
- ``activations.py``: how many bytes the forward pass keeps for the backward pass
- ``flops.py``: how much arithmetic a training step is, and what share of a machine's rate it reached
- ``model_state.py``: how many bytes the state of a model in training takes
- ``step_memory.py``: the memory of a whole training step, by the ledger's labels
"""
