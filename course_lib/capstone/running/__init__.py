"""What happens on the ranks: the task, its warm-up, its steps, the run that is its reference.

In the order to read:

- ``emulated_compute.py``: computing that waits by the work that a rank really does, and a tally of it
- ``replay.py``: A step played again from what was seen of it
- ``task.py``: what a rank is handed
- ``on_mesh.py``: the course's parts put together on a mesh, as a run that ``attempt`` takes
- ``reference_run.py``: the same steps on one device in float64, and how far a run's weights are from there
- ``whose_code.py``: whose code runs on a rank: the learner's, line by line, and strategies that are not the learner's
- ``warming.py``: steps of the whole model on a rank that count for nothing
- ``steps.py``: the steps of an attempt on a rank
"""
