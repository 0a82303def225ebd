"""11.step: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from course_lib.cost.mesh.layout_step import Cut, NodeShape, StepCompute, layout_step_s


def by_the_library(work: StepCompute, cut: Cut, nodes: NodeShape) -> float:
    """Right, by the course's own formula."""
    return layout_step_s(work, cut, nodes)


EXERCISE = "11.step"
FORBIDDEN = by_the_library
