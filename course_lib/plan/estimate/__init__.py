"""What a layout needs and takes: memory of the fullest rank, time of a step by part.

In the order to read:

- ``links.py``: how long a group's collectives take, from its place in the cluster and the constants of a profile
- ``memo.py``: what layouts of one search share, worked out once
- ``layer_time.py``: how long one layer's forward pass takes for one micro-batch, by part
- ``memory.py``: how many bytes a rank needs at most, by part
- ``dp_comm_time.py``: what the data axis sends in a step, and how much of it does not hide behind computing
- ``stage_memory.py``: the bytes of a rank by hand
- ``step_time.py``: how long a step takes, by part, from a job, a layout and a cluster's profile
- ``host_doubt.py``: how much longer or shorter a step may be for its host
- ``data_sizes.py``: the sizes of which a data axis' term is made, for one who builds it by hand
"""
