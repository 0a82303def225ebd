"""What failures cost: how often, how often to save, and the goodput that is left.

In the order to read:

- ``checkpoints.py``: how often to write a checkpoint
- ``failures.py``: how often a job on many GPUs fails
- ``goodput.py``: goodput: the share of a job's time that became training, and where the rest went
- ``goodput_runs.py``: goodput by simulation: many runs of a job whose failures are drawn, each followed from failure to
  failure
"""
