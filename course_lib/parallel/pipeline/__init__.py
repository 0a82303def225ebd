"""Pipelines: schedules as data, their makers, what is wrong with one, and the runtime that executes any of them.

Names load when they are first used, so that a schedule can be made, drawn and judged without torch.
"""

from __future__ import annotations

from course_lib.lazy import loads_when_used

_HOME_OF = {
    "KINDS": "schedule",
    "MAKERS": "makers",
    "Action": "schedule",
    "Maker": "makers",
    "PacedStage": "paced_stage",
    "Pipeline": "runtime",
    "Problem": "validation",
    "Schedule": "schedule",
    "StageFailed": "stage_run",
    "Step": "messages",
    "Transfer": "messages",
    "aligned": "dependencies",
    "average_gradients": "data_parallel",
    "check": "validation",
    "chunks_of": "makers",
    "from_csv": "text",
    "from_text": "text",
    "gpipe": "makers",
    "interleaved": "makers",
    "live_activations": "live",
    "looped_bfs": "makers",
    "make": "makers",
    "naive": "makers",
    "one_f_one_b": "makers",
    "peak_live": "live",
    "peak_live_by_stage": "live",
    "placement": "schedule",
    "run_pipeline": "measured",
    "run_pipeline_steps": "measured",
    "steps_of": "messages",
    "to_csv": "text",
    "to_text": "text",
    "transfer_of": "messages",
    "validate": "validation",
    "zero_bubble_h1": "zero_bubble",
    "zero_bubble_v": "zero_bubble",
}

__all__ = sorted(_HOME_OF)
__getattr__, __dir__ = loads_when_used(__name__, _HOME_OF)
