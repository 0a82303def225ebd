"""ZeRO stages 1 and 2: sharded optimizer states, then sharded gradients.

In the order to read:

- ``stand_in.py``: what stands in ``parameter.grad`` at stage 2, when the numbers have gone to the ranks that keep them
- ``gradient_marks.py``: whose gradients: what stands in ``parameter.grad`` between backward and step is not the mean
  over ranks
- ``optimizer_buckets.py``: what ZeRO stages 1 and 2 send
- ``gradient_sharding.py``: ZeRO stage 2: gradients are sent while backward goes on, and only a rank's own rows of them
  are kept
- ``optimizer_states.py``: states of a sharded optimizer as the plain one has them
- ``sharded_optimizer.py``: ZeRO stages 1 and 2: every rank has all weights, and the optimizer states of its own rows
  alone
"""
