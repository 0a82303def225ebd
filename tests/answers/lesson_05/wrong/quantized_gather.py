"""05.quantized_gather: right by a call that is forbidden there. The mistakes' examples stand in the table beside."""

from __future__ import annotations


def _by_the_library(me, shard, block):
    from course_lib.parallel.collectives.members import Members
    from course_lib.parallel.sharded import all_gather_quantized

    return all_gather_quantized(Members.of(me, None), shard, block)


EXERCISE = "05.quantized_gather"
FORBIDDEN = _by_the_library
