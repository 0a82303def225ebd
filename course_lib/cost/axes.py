"""What the messages along the axes of a mesh take together, where links within a node and between nodes differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from course_lib.checks import not_negative
from course_lib.mesh import Mesh

__all__ = ["axes_time_s"]


def axes_time_s(mesh: Mesh, seconds: Mapping[str, Sequence[float]]) -> float:
    """The sum over the axes, in seconds; ``seconds[axis]`` is what its messages take (within a node, between nodes).

    An axis takes the second as soon as one of its groups has ranks on two nodes: the others wait for the slowest.
    ``ValueError`` for an axis of the mesh without times, and for negative ones.
    """
    total_s = 0.0
    for axis in mesh.axes:
        if axis not in seconds:
            raise ValueError(
                f"seconds has times for {', '.join(seconds) or 'no axis'}, and none for {axis!r}; give a pair "
                "(within_s, between_s) for each axis of the mesh"
            )
        within_s, between_s = seconds[axis]
        not_negative(within_s=within_s, between_s=between_s)
        total_s += within_s if mesh.stays_within_a_node(axis) else between_s
    return total_s
