"""Many small experts: a row is sent once to each rank or node, and a router keeps a token's experts on few nodes.

In the order to read:

- ``sigmoid_router.py``: a router whose scores are sigmoids
- ``node_limited.py``: experts on few nodes
- ``deduplicated.py``: a row once to each member of a group
- ``once_parallel.py``: experts shared out, a row once to each node
"""
