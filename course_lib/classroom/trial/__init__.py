"""A class on trial: how many fit on a machine, tried with kernels that work.

In the order to read:

- ``lessons_here.py``: which lessons run on this machine, which run in part, and which are blocked, each with its
  reasons
- ``node.py``: what this machine lets a class have, and has left now
- ``resource_use.py``: what a learner takes of a machine, lesson by lesson
- ``capacity.py``: how many learners fit: a limit for each thing that may run out, with its formula, and the one that is
  met first
- ``advice.py``: what to change so that a class fits
- ``page.py``: the report of ``course class check``
- ``trial_user.py``: A learner's place in a trial
- ``watch.py``: what the learners of a trial take while they work
- ``server.py``: what one learner's JupyterLab takes
- ``trial.py``: A class that works at once
- ``trial_record.py``: what is kept of a trial, and told of it
- ``command.py``: ``course class check``: the evening before a class, how many learners fit here, and which lessons are
  blocked
"""
