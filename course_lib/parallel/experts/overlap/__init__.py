"""Exchanges of experts that hide behind the computing of another micro-batch.

In the order to read:

- ``two_micro_batches.py``: a layer in steps, and two micro-batches by turns
- ``paced_step.py``: a step of computing that takes a given time
"""
