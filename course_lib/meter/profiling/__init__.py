"""PyTorch's profiler and timed reads, as tables and pictures.

In the order to read:

- ``deep_view.py``: the deep view
- ``reads.py``: who reads which part of a data set, when, and for how many CPU seconds
"""
