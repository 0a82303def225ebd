"""Pipeline schedules as data: who runs which action in which order. The runtime and the cost model both stand on it.

Read ``action.py`` (one cell), ``table.py`` (the schedule), ``dependencies.py`` (what waits for what),
``validation.py`` (what is wrong with one) and ``published.py``, then ``zero_bubble.py``, ``zb_auto.py``,
``zb_v.py`` and ``dualpipe.py``; ``list_scheduler.py`` makes one for stages of any times. ``text.py`` reads what a
person types, ``in_flight.py`` counts activations, ``stage_times.py`` and ``trace.py`` are how long actions take and
when they ran. ``course_lib.cost.simulate`` predicts a schedule, ``course_lib.parallel.pipeline`` runs it. Lesson 07.

Names load when they are first used; none of them needs torch.
"""

from __future__ import annotations

from course_lib.base.lazy import loads_when_used

_HOME_OF = {
    "Action": "action",
    "ActionSpan": "trace",
    "Cell": "action",
    "Dependencies": "dependencies",
    "KINDS": "action",
    "MessageSpan": "trace",
    "Overlap": "action",
    "PLACEMENTS": "table",
    "Problem": "validation",
    "Result": "dependencies",
    "SCHEDULES": "published",
    "Schedule": "table",
    "ScheduleKind": "published",
    "ScheduleTrace": "trace",
    "StageTimes": "stage_times",
    "Transfer": "dependencies",
    "check": "validation",
    "dual_pipe_v": "dualpipe",
    "from_csv": "text",
    "from_text": "text",
    "get_schedule": "published",
    "gpipe": "published",
    "in_flight_counts": "in_flight",
    "interleaved": "published",
    "list_schedule": "list_scheduler",
    "looped_bfs": "published",
    "naive": "published",
    "one_f_one_b": "published",
    "peak_in_flight": "in_flight",
    "peak_in_flight_by_stage": "in_flight",
    "placement": "table",
    "to_csv": "text",
    "validate": "validation",
    "virtual_stages_of": "published",
    "zero_bubble_auto": "zb_auto",
    "zero_bubble_h1": "zero_bubble",
    "zero_bubble_h2": "zero_bubble",
    "zero_bubble_v": "zb_v",
}

__all__ = sorted(_HOME_OF)
__getattr__, __dir__ = loads_when_used(__name__, _HOME_OF)
