"""Every strategy beside PyTorch's, in turns.

In the order to read:

- ``capstone.py``: ``course bench capstone``: every mesh of the capstone's jobs, run for real
- ``data_parallel.py``: ``course bench data_parallel``: threads of one process against processes, on the same batch
- ``in_turns.py``: two ways of one thing on the same ranks, in turns
- ``collectives.py``: ``course bench collectives``: the course's own collectives beside PyTorch's, in turns, within one
  run
- ``ddp.py``: ``course bench ddp``: the course's DistributedDataParallel beside PyTorch's, in turns, within one run
- ``pipeline.py``: ``course bench pipeline``: the course's pipeline runtime beside ``torch.distributed.pipelining``, and
  the simulator
- ``predict.py``: ``course bench predict``: what the cost model says of collectives on this machine, beside what they
  take
- ``sharded.py``: ``course bench sharded``: the course's ZeRO-3 beside PyTorch's ``fully_shard``, in turns, within one
  run
- ``tensor.py``: ``course bench tensor``: a transformer block cut in two by the course, and by PyTorch's DTensor, in
  turns
- ``mesh_rivals.py``: training steps of a transformer on a mesh, two ways
- ``mesh.py``: ``course bench mesh``: training steps on a mesh beside PyTorch's parts, and what the order of the axes
  costs
"""
