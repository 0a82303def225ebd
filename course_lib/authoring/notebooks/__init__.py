"""The builder: a lesson's source becomes the notebook for doing and the executed one for reading.

In the order to read:

- ``writing/``: What the builder writes: notebooks, the map of lessons in README, paths with their hours
- ``assignments/``: Lessons as assignments of nbgrader, which collects, runs and marks them: ``course build --nbgrader``
- ``hosted/``: Lessons for notebooks that others host (Colab, Kaggle, Binder, Codespaces): ``course build --hosted``
- ``cli.py``: ``course build``: from ``notebooks/src`` to the notebooks
- ``rules/``: The rules that every lesson keeps: functions that take a Lesson and return a sentence for each breach
"""
