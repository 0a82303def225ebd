"""Trials of claims about split models, memory and machines.

In the order to read:

- ``catalogue_machines.py``: trials on machines as they are sold
- ``memory.py``: trials of what is said about memory
- ``meshes.py``: trials of what is said about several kinds of parallelism at once
- ``pipelines.py``: trials of what is said about models cut by layers
- ``placing.py``: the trial of what is said about which cut belongs where
- ``strategies.py``: trials of how ways to train on several devices are sorted
- ``tensors.py``: trials of what is said about cutting a layer
- ``topology.py``: the trial of what is said about NVLink and PCIe
"""
