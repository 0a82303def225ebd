"""A rank's memory, weighed: what Python holds, what the system counts, what lies beside.

In the order to read:

- ``intact.py``: whether the judge's own code is what it was
- ``memory_group.py``: A control group of the rank's own, where the system lets it have one
- ``memory_limit.py``: the memory of a rank, weighed while it trains, and a run that is ended when it holds too much
- ``non_tensor_memory.py``: memory that is no tensor
- ``open_files.py``: what waits in the files, pipes and sockets that a process has open, in memory that it shares, and
  in System V's
- ``side_channel_audit.py``: what a process does beside the meter
- ``system_memory.py``: what a process holds as the system counts it
- ``memory_inventory.py``: what a process holds between two steps, looked for outside the run
"""
