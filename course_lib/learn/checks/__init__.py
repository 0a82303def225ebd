"""``check``, ``hint``, ``solution`` and the map of progress.

In the order to read:

- ``checking.py``: ``check("07.split", split)``
- ``grading.py``: ``check`` while a notebook is marked
- ``grading_process.py``: the fresh process of ``grading.py``
- ``preload.py``: every room at once
- ``progress_map.py``: ``progress()``
- ``reference.py``: the reference solutions, read from the lessons' sources, where each is written once
- ``hints.py``: ``hint("07.split")``
"""
