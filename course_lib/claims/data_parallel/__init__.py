"""Trials of claims about data parallelism, loading and speed.

In the order to read:

- ``batch_norm.py``: the trial of what is said about small batches on each device
- ``files.py``: trials of what is said about checkpoints and logs when several processes train
- ``images.py``: the trial of what is said about the size of a picture behind convolutions and poolings
- ``launching.py``: trials of what is said about starting
- ``loss_reduction.py``: the trial of what a loss that is summed over the batch does to DDP's gradients
- ``replicas.py``: trials of what data parallelism replicates, splits, sends and keeps alike
- ``sampling.py``: trials of what is said about who trains on which samples
- ``speed.py``: trials of what is said about speed
- ``threads.py``: trials of what is said about ``nn.DataParallel``
- ``turn_taking.py``: whether threads and processes get on side by side
- ``utilisation.py``: the trial of what a high utilisation is said to mean
"""
