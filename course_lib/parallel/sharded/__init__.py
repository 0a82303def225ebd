"""Lesson 05, sharded data parallelism: parameters, gradients and optimizer states, cut among data-parallel ranks.

Read ``row_sharding.py`` (what a rank keeps of a tensor); then ZeRO stages 1 and 2: ``zero/sharded_optimizer.py``,
``zero/optimizer_buckets.py``, ``zero/gradient_sharding.py``, and for care ``agreement.py`` (the same weights on all
ranks), ``zero/gradient_marks.py`` (what nobody may write to), ``zero/optimizer_states.py``; then stage 3: ``unit.py``
(gather, use, let go, reduce), ``at_rest.py`` and ``shard.py`` (what modules and optimizers hold between uses),
``partial_reshard.py`` (among fewer ranks in between), ``fully_sharded.py`` (when), ``hooks.py``, ``unit_partition.py``,
``reduction.py``, ``prefetch_order.py``, ``misuse.py`` (the sentences). Beside them: ``clipping.py``, ``full_state.py``,
``quantized_gather.py`` (weights sent in one byte each),
``tools/whole_weights.py`` (whole parameters for a moment), ``tools/whole_matrices.py`` (Muon), ``tools/checkpoint.py``,
``tools/watching.py`` (what a step holds, by the ledger). Production code uses ``torch.distributed.fsdp.fully_shard``.
"""

from __future__ import annotations

from course_lib.base.lazy import loads_when_used

_HOME_OF = {
    "FullySharded": "fully_sharded",
    "Packing": "row_sharding",
    "Rows": "row_sharding",
    "ShardedOptimizer": "zero.sharded_optimizer",
    "WholeMatrixOptimizer": "tools.whole_matrices",
    "all_gather_quantized": "quantized_gather",
    "assign_owners": "tools.whole_matrices",
    "clip_gradients": "clipping",
    "clip_shards": "clipping",
    "dequantize_blocks": "quantized_gather",
    "fill_from_meta": "tools.whole_weights",
    "load_sharded": "tools.checkpoint",
    "newest_checkpoint": "tools.checkpoint",
    "quantize_blocks": "quantized_gather",
    "save_sharded": "tools.checkpoint",
    "start_save_sharded": "tools.checkpoint",
    "unsharded": "tools.whole_weights",
    "watched_step": "tools.watching",
}

__all__ = sorted(_HOME_OF)
__getattr__, __dir__ = loads_when_used(__name__, _HOME_OF)
