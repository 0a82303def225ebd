"""12.replicas: right by a call that is forbidden there. The mistakes' examples stand in the table."""

from __future__ import annotations


def by_the_library(me, tensors):
    from course_lib.parallel import collectives

    return collectives.odd_ranks(me, tensors)


EXERCISE = "12.replicas"
FORBIDDEN = by_the_library
