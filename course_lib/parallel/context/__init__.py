"""Lesson 10, long contexts: attention over a sequence that is cut among ranks.

``course_lib/layouts/sequence_cut.py`` is the cut itself, as data: who has which positions. Read ``online_softmax.py``
(why attention can be computed in pieces: the log-sum-exp), ``ring_exchange.py`` (blocks that go round, and sums),
``ring.py``, which puts the two together, and beside it ``all_to_all.py``. ``attention.py`` and ``transformer.py`` are a
model over it; ``documents.py`` is the mask of a packed sequence (whose cut is ``layouts/document_cut.py``);
``positions.py`` cuts and joins tensors, ``checks.py`` has the sentences, and ``watching.py`` lays a run beside one
process. What it costs: ``cost.model_parallel.context``. Production code uses
``torch.distributed.tensor.experimental.context_parallel``, a prototype for GPUs.
"""

from __future__ import annotations

from course_lib.base.lazy import loads_when_used

_HOME_OF = {
    "ContextParallelAttention": "attention",
    "ContextStem": "transformer",
    "RunningAttention": "online_softmax",
    "SumsAround": "ring_exchange",
    "WatchedAttention": "watching",
    "all_to_all_attention": "all_to_all",
    "attend": "online_softmax",
    "attend_backward": "online_softmax",
    "blocks_around": "ring_exchange",
    "context_loss": "transformer",
    "document_mask": "documents",
    "join_positions": "positions",
    "own_positions": "positions",
    "ring_attention": "ring",
    "split_context": "transformer",
    "watched_attention": "watching",
}

__all__ = sorted(_HOME_OF)
__getattr__, __dir__ = loads_when_used(__name__, _HOME_OF)
