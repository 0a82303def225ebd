"""Time: spans on a timeline, GPU events, a stopwatch for comparisons.

In the order to read:

- ``gpu_clock.py``: events of a GPU on the host's clock
- ``spans.py``: A span of a rank's time, and spans as events of a trace that Perfetto opens
- ``timeline.py``: where the time of a rank goes
- ``stopwatch.py``: A fair stopwatch
"""
