"""Lesson 05, sharded data parallelism: parameters, gradients and optimizer states, cut among data-parallel ranks.

Read ``rows.py`` (what a rank keeps of a tensor); then ZeRO stages 1 and 2: ``optimizer.py``,
``optimizer_buckets.py``, ``gradient_sharding.py``, and for care ``agreement.py`` (the same weights on all ranks),
``gradient_marks.py`` (what nobody may write to), ``optimizer_states.py``; then stage 3: ``unit.py`` (gather, use, let
go, reduce), ``at_rest.py`` and ``shard.py`` (what modules and optimizers hold between uses), ``neighbours.py`` (among
fewer ranks in between), ``fully_sharded.py`` (when), ``hooks.py``, ``division.py``, ``reduction.py``, ``order.py``,
``misuse.py`` (the sentences). Beside them: ``clipping.py``, ``full_state.py``, ``whole_weights.py`` (whole parameters
for a moment), ``whole_matrices.py`` (Muon), ``checkpoint.py``, ``watching.py`` (what a step holds, by the ledger).
Production code uses ``torch.distributed.fsdp.fully_shard``.
"""

from __future__ import annotations

from course_lib.lazy import loads_when_used

_HOME_OF = {
    "FullySharded": "fully_sharded",
    "Packing": "rows",
    "Rows": "rows",
    "ShardedOptimizer": "optimizer",
    "WholeMatrixOptimizer": "whole_matrices",
    "clip_gradients": "clipping",
    "clip_shards": "clipping",
    "deal_out": "whole_matrices",
    "fill_from_meta": "whole_weights",
    "load_sharded": "checkpoint",
    "newest_checkpoint": "checkpoint",
    "save_sharded": "checkpoint",
    "start_save_sharded": "checkpoint",
    "watched_step": "watching",
    "whole": "whole_weights",
}

__all__ = sorted(_HOME_OF)
__getattr__, __dir__ = loads_when_used(__name__, _HOME_OF)
