"""10.once_a_node: right by a call that is forbidden there. The mistakes' examples stand in the course."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor


def _by_the_library(chosen: Tensor, num_experts: int, num_nodes: int) -> tuple[Tensor, Sequence[int]]:
    from course_lib.parallel.experts import once_for_each

    return once_for_each(chosen // (num_experts // num_nodes), num_nodes)


EXERCISE = "10.once_a_node"
FORBIDDEN = _by_the_library
