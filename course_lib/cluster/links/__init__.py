"""Links with a bandwidth and a latency, emulated between ranks; and computing that only waits.

In the order to read:

- ``emulated_compute.py``: emulated compute: steps that wait in place of computing, and ranks slowed by a factor
- ``links.py``: links to shape: how long messages between ranks take, when the learner says so rather than the machine
- ``link_times.py``: when messages arrive over emulated links
- ``port_schedule.py``: the schedule of ports of emulated links
- ``emulation.py``: emulated links, on a rank
- ``toggle.py``: turns emulated links and the slowing of this rank on and off, as the caller's context says
"""
