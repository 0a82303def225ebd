"""Lesson 02: the eight collectives, from batched messages between two ranks; each function fits a screen.

Read ``tree.py`` (broadcast), ``ring.py``, ``direct.py`` (scatter, gather, all-to-all), ``halving_doubling.py`` and
``algorithms.py``, where all-reduce chooses among them; ``members.py`` says who takes part, ``parts.py`` which
parameters are no copies. Every function takes the rank that calls it first, leaves its input alone unless ``out`` says
otherwise, and ignores autograd: the docstrings say which collective the backward pass is.

Beside them: ``autocast.py`` casts before one, ``recording.py`` and ``message_steps.py`` watch a collective as it runs,
for the pictures of lesson 02, ``dim_collectives.py`` has PyTorch's own along any dim, for lessons 05 and 08,
``lean_reduce_scatter.py`` what gloo lacks. For lesson 12 ``hierarchical.py`` has an all-reduce inside nodes and between
them, and ``replica_vote.py`` a vote on which rank is wrong. Production code calls ``torch.distributed``.
"""

from __future__ import annotations

from course_lib.base.lazy import loads_when_used

_HOME_OF = {
    "ALL_REDUCE_ALGORITHMS": "algorithms",
    "Members": "members",
    "RECORDABLE": "recording",
    "all_gather": "ring",
    "all_reduce": "algorithms",
    "all_to_all": "direct",
    "broadcast": "tree",
    "gather": "direct",
    "hash_of_bits": "replica_vote",
    "hierarchical_all_reduce": "hierarchical",
    "odd_ranks": "replica_vote",
    "record": "recording",
    "reduce": "tree",
    "reduce_scatter": "ring",
    "scatter": "direct",
    "split_sizes": "members",
}

__all__ = sorted(_HOME_OF)
__getattr__, __dir__ = loads_when_used(__name__, _HOME_OF)
