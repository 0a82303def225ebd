"""What is planned: a model, a job, a cluster, a layout; and what is known of software and machines.

In the order to read:

- ``cluster.py``: A cluster as the planner sees it
- ``constants.py``: the constants of a cluster that no data sheet tells
- ``calibrated.py``: A cluster from the file that ``calibrate()`` keeps
- ``layout.py``: A layout: how many ways each axis cuts, and how a step runs through the cut
- ``model.py``: A decoder by its sizes
- ``hf_config.py``: A Hugging Face ``config.json`` read as a ``Decoder``
- ``job.py``: A job: what is to be trained, however it is cut
- ``models.py``: models by name, by the path of a ``config.json``, and by sizes that are typed
- ``numbers.py``: numbers as the planner prints them
- ``software.py``: what a program does that its layout does not tell
- ``profiles.py``: profiles: what is known of a cluster (its GPUs, its ports, its program), and the constants fitted to
  its runs
- ``error_bands.py``: how wrong the planner may be: bands from what it told of published runs that it had not been
  fitted to
- ``stages.py``: which stage of a pipeline has how many layers
"""
