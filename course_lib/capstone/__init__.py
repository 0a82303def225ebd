"""The capstone, lesson 14: a model that does not fit, a cluster, a budget of time; a mesh is chosen, run and defended.

::

    job = job_for(level=1, seed=7)
    result = attempt(job, assemble, shared_cluster(job.ranks))
    report(result, "my_report")

In the order to read:

- ``jobs/``: What is asked: levels, the job of a seed, what a mesh would take, a result and its points
- ``memory/``: A rank's memory, weighed: what Python holds, what the system counts, what lies beside
- ``reports/``: What is kept and shown of attempts: files, pages, the leaderboard
- ``running/``: What happens on the ranks: the task, its warm-up, its steps, the run that is its reference
- ``attempts/``: An attempt from end to end: run, rules, cache, record, search
"""

from __future__ import annotations

from course_lib.base.lazy import loads_when_used

_HOME_OF = {
    "CapstoneJob": "jobs.job",
    "FAULTS": "attempts.rule_violations",
    "Fault": "jobs.result",
    "Known": "jobs.result",
    "MeshPlan": "jobs.planning",
    "Result": "jobs.result",
    "Task": "running.task",
    "assemble_on": "running.on_mesh",
    "attempt": "attempts.attempting",
    "best_plan": "jobs.planning",
    "Board": "reports.leaderboard",
    "board": "reports.leaderboard",
    "job_for": "jobs.job",
    "meshes": "jobs.planning",
    "plans": "jobs.planning",
    "recorded": "attempts.record",
    "recorded_run": "attempts.record",
    "reference": "attempts.references",
    "report": "reports.reports",
    "search": "attempts.searching",
    "whose_code": "reports.code_rows",
    "whole_state_of": "running.on_mesh",
}

__all__ = sorted(_HOME_OF)
__getattr__, __dir__ = loads_when_used(__name__, _HOME_OF)
