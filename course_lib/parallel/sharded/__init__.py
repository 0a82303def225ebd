"""Lesson 05, sharded data parallelism: parameters, gradients and optimizer states, cut among data-parallel ranks.

Read ``rows.py`` (what a rank keeps of a tensor), ``unit.py`` (gather, use, let go, reduce), ``fully_sharded.py`` (when),
and then ``division.py``, ``reduction.py``, ``order.py``. Production code uses ``torch.distributed.fsdp.fully_shard``.
"""

from __future__ import annotations

from course_lib.lazy import loads_when_used

_HOME_OF = {
    "FullySharded": "fully_sharded",
    "Packing": "rows",
    "Rows": "rows",
}

__all__ = sorted(_HOME_OF)
__getattr__, __dir__ = loads_when_used(__name__, _HOME_OF)
