"""PyTorch's profiler and timed reads, as tables and pictures.

In the order to read:

- ``deep_view.py``: the deep view: ``torch.profiler`` on every rank, all ranks on one clock, beside the course's own
  meters
- ``reads.py``: who reads which part of a data set, when, and for how many CPU seconds
"""
