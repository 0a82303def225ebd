"""What this machine can do: measured curves, fitted links.

In the order to read:

- ``curve.py``: A measured time by size, read between its samples
- ``link_fit.py``: how long a message takes, as two numbers
- ``probes.py``: the short experiments of a calibration
- ``together.py``: what ranks get when all of them work at once
- ``calibration.py``: what this machine can do, measured once and kept
"""
