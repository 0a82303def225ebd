"""What this machine can do: measured curves, fitted links.

In the order to read:

- ``curve.py``: A measured time by size, read between its samples
- ``link_fit.py``: how long a message takes, as two numbers
- ``probes.py``: the short experiments of a calibration
- ``between_nodes.py``: the link between the two first nodes of a cluster, measured now
- ``together.py``: what ranks get when all of them work at once
- ``calibration.py``: what this machine can do, measured once and kept
"""
