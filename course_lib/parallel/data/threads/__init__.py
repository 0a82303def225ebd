"""``nn.DataParallel``: one process, a thread for each device.

In the order to read:

- ``device_moves.py``: the three moves of data parallelism in one process
- ``data_parallel.py``: ``nn.DataParallel`` taken apart: scatter, replicate, parallel apply, gather
- ``device_memory.py``: what each device of ``nn.DataParallel`` holds at the end of a forward pass, found out on any
  machine
- ``thread_race.py``: threads against processes: the same arithmetic by k threads of one process, and by k processes
"""
