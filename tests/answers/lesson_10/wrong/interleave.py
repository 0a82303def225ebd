"""10.interleave: right by a call that is forbidden there. The mistakes' examples stand in the course."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor


def _by_the_library(layers: Sequence[Any], a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    from course_lib.parallel.experts import interleaved

    return interleaved(layers, a, b)


EXERCISE = "10.interleave"
FORBIDDEN = _by_the_library
