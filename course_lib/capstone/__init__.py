"""The capstone, lesson 14: a model that does not fit, a cluster, a budget of time; a mesh is chosen, run and defended.

::

    job = job_for(level=1, seed=7)
    result = attempt(job, assemble, shared_cluster(job.ranks))
    report(result, "my_report")

In the order to read: ``levels.py`` (how a seed becomes sizes), ``expected.py`` and ``peak.py`` (time and memory of a
mesh), ``drawn.py`` (what came of the first seeds), ``job.py`` (the job), ``planning.py`` (the planner's table and its
best); on a rank ``work.py`` (computing that waits by the work that is done), ``task.py`` (what a rank is handed),
``on_mesh.py`` (the course's parts as a run), ``warming.py`` (steps before the first), ``weighing.py`` (memory,
enforced), ``census.py``, ``beside_tensors.py`` and ``beside.py`` (what else a process holds and does),
``by_system.py``, ``open_files.py`` and ``own_group.py`` (the same as the system counts it), ``intact.py`` (whether the
judge is what it was), ``steps.py`` (the steps of a rank); then ``values.py`` (against one device), ``hidden.py`` and
``faults.py`` (cheats by name), ``points.py``, ``result.py``, ``attempting.py``; ``record.py`` and ``searching.py``
(every mesh run for real), ``references.py`` (a solution for each level), ``reports.py`` and ``boards.py``.
"""

from __future__ import annotations

from course_lib.lazy import loads_when_used

_HOME_OF = {
    "CapstoneJob": "job",
    "FAULTS": "faults",
    "Fault": "result",
    "Known": "result",
    "Plan": "planning",
    "Result": "result",
    "Task": "task",
    "assemble_on": "on_mesh",
    "attempt": "attempting",
    "best_plan": "planning",
    "Board": "boards",
    "board": "boards",
    "job_for": "job",
    "plans": "planning",
    "recorded": "record",
    "recorded_run": "record",
    "reference": "references",
    "report": "reports",
    "search": "searching",
    "whole_state_of": "on_mesh",
}

__all__ = sorted(_HOME_OF)
__getattr__, __dir__ = loads_when_used(__name__, _HOME_OF)
