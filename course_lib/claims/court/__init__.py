"""What trials share: the catalogue of claims, evidence, noise, workloads, a claim of one's own.

In the order to read:

- ``catalogue.py``: what widely read articles say about training on many GPUs, in our own words
- ``evidence.py``: A trial: code that puts one claim to the test, and the evidence that it brings back
- ``custom_claim.py``: A reader's own claim: a sentence and the trial that decides it, which runs beside the catalogue's
- ``timing_noise.py``: whether a clock could be believed
- ``workloads.py``: what the trials train: small, in float64 so that a difference is one of method, and the same in
  every run
"""
