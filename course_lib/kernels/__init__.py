"""Kernels that begin as forks of one process, which has imported what lessons import.

In the order to read:

- ``fork_server.py``: A process that has imported what kernels need, and is forked for each of them
- ``modules.py``: what it imports
- ``server.py``: begins that process, says when it is ready and when it is behind what is on the disk, and ends it
- ``forked_kernel.py``: a forked kernel, with what Jupyter asks of a process that it has started
- ``provisioner.py``: has Jupyter begin kernels so; where that cannot be, they start as they do everywhere
"""
