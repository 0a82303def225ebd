"""What to type for a layout: lines for the course's programs, and the same settings by the names of others.

``typed.py`` (a text and its notes), ``course_programs.py`` (torchrun lines), ``torchtitan.py`` (TOML), ``megatron.py``
(arguments), ``deepspeed.py`` (JSON). Where a program has no word for a part of a layout, a note says so, and where it
cannot run the layout at all there is no text. Names of others are those of their sources in 2025 and early 2026.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from course_lib.base.checks import known
from course_lib.plan.inputs.cluster import ClusterSpec
from course_lib.plan.inputs.job import Job
from course_lib.plan.inputs.layout import Layout
from course_lib.plan.output.exporters.course_programs import course_lines
from course_lib.plan.output.exporters.deepspeed import deepspeed
from course_lib.plan.output.exporters.megatron import megatron
from course_lib.plan.output.exporters.torchtitan import torchtitan
from course_lib.plan.output.exporters.typed import Typed

__all__ = ["PROGRAMS", "Typed", "to_type"]

PROGRAMS: dict[str, Callable[[Job, Layout, ClusterSpec], Sequence[Typed]]] = {
    "course": course_lines,
    "torchtitan": lambda job, layout, cluster: [torchtitan(job, layout, cluster)],
    "megatron": lambda job, layout, cluster: [megatron(job, layout, cluster)],
    "deepspeed": lambda job, layout, cluster: [deepspeed(job, layout, cluster)],
}


def to_type(name: str, job: Job, layout: Layout, cluster: ClusterSpec) -> Sequence[Typed]:
    """What to type for one of ``PROGRAMS``; ValueError with their names for another."""
    return PROGRAMS[known("program", name, PROGRAMS)](job, layout, cluster)
