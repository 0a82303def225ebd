"""Lesson 07, pipelines: the runtime that executes any schedule on real ranks.

A schedule is data and lives in ``course_lib.schedules``; start there. Then read ``runtime.py`` (what a user calls),
``messages.py`` and ``comm_plan.py`` (which messages start when), ``batch_run.py`` (the loop over a row),
``stage_run.py`` and ``split_backward.py`` (what a stage does with a micro-batch) and ``shapes.py`` (what is found out
before the first batch). ``paced_stage.py`` and ``measured.py`` run a schedule at a given pace, ``data_parallel.py``
joins several pipelines, ``wrapped.py`` is about stages that are sharded. For the loops that learners write:
``row_stage.py`` is a stage without messages, ``given_stages.py`` the runtime for stages that each rank is given, and
``own_runtime.py`` runs one of theirs at a given pace. Production code uses ``torch.distributed.pipelining``.
"""

from __future__ import annotations

from course_lib.base.lazy import loads_when_used

_HOME_OF = {
    "GivenStages": "given_stages",
    "PacedStage": "paced_stage",
    "Pipeline": "runtime",
    "RowStage": "row_stage",
    "StageFailed": "stage_run",
    "MessageStep": "messages",
    "average_gradients": "data_parallel",
    "joint_step": "data_parallel",
    "run_pipeline": "measured",
    "run_runtime": "own_runtime",
    "run_pipeline_steps": "measured",
    "steps_of": "messages",
}

__all__ = sorted(_HOME_OF)
__getattr__, __dir__ = loads_when_used(__name__, _HOME_OF)
