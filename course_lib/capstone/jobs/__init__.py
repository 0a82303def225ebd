"""What is asked: levels, the job of a seed, what a mesh would take, a result and its points.

In the order to read:

- ``peak.py``: the most that a rank of a mesh holds in a step of ``OnMesh``
- ``expected.py``: all meshes of so many ranks, and what is expected of a job on each
- ``precomputed_levels.py``: what came of the first seeds of each level
- ``levels.py``: how a seed becomes a job
- ``job.py``: A job: a model that no rank has room for, nodes with slow links between them, and a budget of time
- ``result.py``: what an attempt has come to
- ``planning.py``: the planner's table of a job
- ``points.py``: points of an attempt, part by part
"""
