"""The processes of the ranks: how they start, what reaches them, what comes back.

In the order to read:

- ``caller_context.py``: what a rank shares with the notebook that calls it
- ``cell.py``: running the text of a notebook cell on a rank, as the notebook itself would
- ``defer_interrupt.py``: defers SIGINT while ranks start or end
- ``descendants.py``: descendants of a rank: processes that it has started, and theirs, wherever they have gone since
- ``interruption.py``: interrupting a function that is busy in Python on a rank
- ``output_capture.py``: captures what a rank prints, at the file descriptor, and hands it to the parent
- ``preload.py``: what the fork server imports once, so that no rank has to
- ``serialization.py``: serialization of values between the notebook and its ranks
- ``rank_process.py``: the life of one rank
- ``processes.py``: starting and ending the processes of ranks, each by its handle
"""
