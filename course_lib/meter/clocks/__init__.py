"""Time: spans on a timeline, GPU events, a stopwatch for comparisons.

In the order to read:

- ``gpu_clock.py``: events of a GPU on the host's clock
- ``spans.py``: A span of a rank's time, and spans as events of a trace that Perfetto opens
- ``stopwatch.py``: A fair stopwatch: warm-up, several rounds, medians, and the honesty to say when a machine was too
  noisy to tell
- ``timeline.py``: where the time of a rank goes
"""
