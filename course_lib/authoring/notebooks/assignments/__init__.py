"""Lessons as assignments of nbgrader, which collects, runs and marks them: ``course build --nbgrader``.

Read ``cells.py`` (which cell is what to nbgrader, and where points come from), ``settings.py`` (what nbgrader is told),
``folder.py`` (the files, and whose changes are kept), and ``steps.py`` (what the course does within nbgrader). How a
check becomes points while nbgrader runs a notebook stands in ``course_lib/learn/checks/grading.py``.

In the order to read:

- ``cells.py``: A lesson's source becomes the notebook that nbgrader calls the instructor's
- ``settings.py``: what nbgrader is told of the course
- ``folder.py``: write the folder in which nbgrader works
- ``steps.py``: two steps of nbgrader's that the course replaces
"""
