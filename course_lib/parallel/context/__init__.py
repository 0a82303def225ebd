"""Lesson 10, long contexts: attention over a sequence that is cut among ranks.

``course_lib/sequence_cut.py`` is the cut itself, as data: who has which positions. Read ``tiles.py`` (why attention can
be computed in pieces: the log-sum-exp), ``travel.py`` (blocks that go round, and sums), ``ring.py``, which
puts the two together, and beside it ``all_to_all.py``. ``attention.py`` and ``transformer.py`` are a model
over it; ``positions.py`` cuts and joins tensors, ``checks.py`` has the sentences, and ``watching.py`` lays a run beside
one process. What it costs: ``cost.context``.
Production code uses ``torch.distributed.tensor.experimental.context_parallel``, a prototype for GPUs.
"""

from __future__ import annotations

from course_lib.lazy import loads_when_used

_HOME_OF = {
    "ContextParallelAttention": "attention",
    "ContextStem": "transformer",
    "RunningAttention": "tiles",
    "SumsAround": "travel",
    "WatchedAttention": "watching",
    "all_to_all_attention": "all_to_all",
    "attend": "tiles",
    "attend_backward": "tiles",
    "blocks_around": "travel",
    "context_loss": "transformer",
    "join_positions": "positions",
    "own_positions": "positions",
    "ring_attention": "ring",
    "split_context": "transformer",
    "watched_attention": "watching",
}

__all__ = sorted(_HOME_OF)
__getattr__, __dir__ = loads_when_used(__name__, _HOME_OF)
