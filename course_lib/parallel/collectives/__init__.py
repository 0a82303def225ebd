"""The eight collectives, from batched messages between two ranks; each function fits a screen.

Start with ``tree.py`` (broadcast), then ``ring.py``. Every function takes the rank that calls it first, leaves its
input alone unless ``out`` says otherwise, and ignores autograd: the docstrings say which collective the backward pass
is. Production code calls ``torch.distributed``.
"""

from course_lib.parallel.collectives.all_reduce import ALL_REDUCE_ALGORITHMS, all_reduce
from course_lib.parallel.collectives.direct import all_to_all, gather, scatter
from course_lib.parallel.collectives.members import split_sizes
from course_lib.parallel.collectives.ring import all_gather, reduce_scatter
from course_lib.parallel.collectives.tree import broadcast, reduce

__all__ = [
    "ALL_REDUCE_ALGORITHMS",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
    "split_sizes",
]
