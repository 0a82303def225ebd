"""Links with a bandwidth and a latency, emulated between ranks; and computing that only waits.

In the order to read:

- ``emulated_compute.py``: computing that takes as long as it is told to
- ``links.py``: links to shape
- ``link_times.py``: when messages arrive over shaped links
- ``port_schedule.py``: the timetable of shaped links
- ``emulation.py``: the part of shaped links that lives in a rank
- ``toggle.py``: in a rank
"""
