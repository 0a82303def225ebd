"""04.trace_buckets: right by a call that is forbidden there. The mistakes' examples stand in the course."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from course_lib.parallel.data import assign_buckets


def _by_the_course(sizes: Sequence[int], first_limit: int, limit: int) -> list[list[int]]:
    """Four times the sizes and limits: a parameter has whole numbers of four bytes."""
    parameters = [nn.Parameter(torch.empty(size, device="meta")) for size in sizes]
    places = {id(parameter): place for place, parameter in enumerate(parameters)}
    found = assign_buckets(parameters, bucket_size_bytes=4 * limit, first_bucket_size_bytes=4 * first_limit)
    return [[places[id(parameter)] for parameter in bucket.parameters] for bucket in found]


EXERCISE = "04.trace_buckets"
FORBIDDEN = _by_the_course
