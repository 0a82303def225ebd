"""What is planned: a model, a job, a cluster, a layout; and what is known of software and machines.

In the order to read:

- ``cluster.py``: A cluster as the planner sees it
- ``layout.py``: A layout
- ``constants.py``: the constants of a cluster that no data sheet tells
- ``calibrated.py``: A cluster from the file that ``calibrate()`` keeps
- ``model.py``: A decoder by its sizes
- ``hf_config.py``: A Hugging Face ``config.json`` read as a ``Decoder``
- ``models.py``: models by name, by the path of a ``config.json``, and by sizes that are typed
- ``job.py``: A job
- ``numbers.py``: numbers as the planner prints them
- ``software.py``: what a program does that its layout does not tell
- ``profiles.py``: profiles
- ``stages.py``: which stage of a pipeline has how many layers
"""
