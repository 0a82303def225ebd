"""What trials share: the catalogue of claims, evidence, noise, workloads, a claim of one's own.

In the order to read:

- ``catalogue.py``: what widely read articles say about training on many GPUs, in our own words
- ``evidence.py``: A trial
- ``custom_claim.py``: A reader's own claim
- ``timing_noise.py``: whether a clock could be believed
- ``workloads.py``: what the trials train
"""
