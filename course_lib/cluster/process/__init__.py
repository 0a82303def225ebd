"""The processes of the ranks: how they start, what reaches them, what comes back.

In the order to read:

- ``caller_context.py``: what a rank shares with the notebook that calls it
- ``cell.py``: running the text of a notebook cell on a rank, as the notebook itself would
- ``defer_interrupt.py``: an interrupt that waits until ranks are wholly started, or wholly ended
- ``descendants.py``: processes that a rank has started, and those that they have started, wherever they have gone since
- ``interruption.py``: how the notebook ends a function that is busy in Python on a rank
- ``output_capture.py``: what a rank prints
- ``preload.py``: what the fork server imports once, so that no rank has to
- ``serialization.py``: how values travel between the notebook and its ranks
- ``rank_process.py``: the life of one rank
- ``processes.py``: starting and ending the processes of ranks, each by its handle
"""
