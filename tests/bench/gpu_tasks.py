"""A step of ``course bench gpu`` in hand, without its process: its time, and what it has told."""

from __future__ import annotations

from course_lib.authoring.bench.gpu.task import BenchTask

LIMIT_S = 300.0


def outcomes(task: BenchTask) -> dict[str, str]:
    """How each part ended, by its name."""
    return {part["name"]: part["outcome"] for part in task.parts}
