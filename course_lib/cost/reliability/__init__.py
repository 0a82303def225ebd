"""What failures cost: how often, how often to save, and the goodput that is left.

In the order to read:

- ``checkpoints.py``: how often to write a checkpoint
- ``goodput.py``: goodput
- ``goodput_runs.py``: goodput by simulation
- ``failures.py``: how often a job on many GPUs fails
"""
