"""``check``, ``hint``, ``solution`` and the map of progress.

In the order to read:

- ``checking.py``: ``check("07.split", split)``: try a learner's answer and say what was seen
- ``grading.py``: ``check`` while a notebook is marked
- ``grading_process.py``: the fresh process of ``grading.py``
- ``preload.py``: every room at once. The fork server imports this, so that no rank that tries an answer imports its
  lesson again
- ``lesson_index.py``: which part of a lesson a name belongs to ("04.sampler" to 04b), and what the parts, checks and
  questions are called
- ``progress_map.py``: ``progress()``: the map of the lessons with what is done
- ``reference.py``: the reference solutions, read from the lessons' sources, where each is written once
- ``hints.py``: ``hint("07.split")``: one step further at each call
"""
