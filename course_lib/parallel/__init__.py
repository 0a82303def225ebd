"""Every way to share work among ranks, written from scratch to be read; production code uses PyTorch's own.

Names load when they are first used, so that what is data (a schedule, a placement) can be read without torch.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOME_OF = {
    "Bucket": "buckets",
    "all_reduce_buckets": "buckets",
    "assign_buckets": "buckets",
    "CheckpointError": "checkpoint",
    "load_checkpoint": "checkpoint",
    "load_on_all": "checkpoint",
    "save_by_one": "checkpoint",
    "save_checkpoint": "checkpoint",
    "all_gather_reduce_scatter": "conjugates",
    "all_gather_split": "conjugates",
    "all_reduce_identity": "conjugates",
    "identity_all_reduce": "conjugates",
    "reduce_scatter_all_gather": "conjugates",
    "split_all_gather": "conjugates",
    "CopyCounter": "copies",
    "Part": "cutting",
    "cut": "cutting",
    "memory_costs": "cutting",
    "parameter_costs": "cutting",
    "pieces_of": "cutting",
    "split_evenly": "cutting",
    "tied_parameters": "cutting",
    "time_costs": "cutting",
    "DataParallel": "data_parallel",
    "gather": "data_parallel",
    "parallel_apply": "data_parallel",
    "replicate": "data_parallel",
    "scatter": "data_parallel",
    "DistributedDataParallel": "distributed_data_parallel",
    "all_reduce_gradients": "distributed_data_parallel",
    "broadcast_parameters": "distributed_data_parallel",
    "global_mean": "distributed_data_parallel",
    "DistributedSampler": "distributed_sampler",
    "GlobalBatches": "distributed_sampler",
    "Drift": "drift",
    "DriftDetector": "drift",
    "find_drift": "drift",
    "fingerprints": "drift",
    "ModelParallel": "model_parallel",
    "OnDevices": "model_parallel",
    "PartFailed": "model_parallel",
    "PacedLayers": "paced_layers",
    "paced_step_s": "paced_layers",
    "Passing": "passing",
    "ReceiveFromPrevious": "passing",
    "SendToNext": "passing",
    "MATMUL_RULES": "placements",
    "MatmulPlan": "placements",
    "Partial": "placements",
    "Placement": "placements",
    "Replicate": "placements",
    "Shard": "placements",
    "Step": "placements",
    "change": "placements",
    "gradient_placement": "placements",
    "local_product": "placements",
    "matmul_plan": "placements",
    "parse_placement": "placements",
    "RECORDABLE": "recording",
    "record": "recording",
    "local_part": "redistribution",
    "redistribute": "redistribution",
    "run_matmul": "redistribution",
    "SyncBatchNorm": "sync_batch_norm",
    "ColumnParallelLinear": "tensor_parallel",
    "HeadParallelAttention": "tensor_parallel",
    "RowParallelLinear": "tensor_parallel",
    "SequenceParallelNorm": "tensor_parallel",
    "VocabParallelEmbedding": "tensor_parallel",
    "gather_logits": "tensor_parallel",
    "gather_state": "tensor_parallel",
    "join_states": "tensor_parallel",
    "load_unsplit": "tensor_parallel",
    "own_random_numbers": "tensor_parallel",
    "parameter_placements": "tensor_parallel",
    "split_block": "tensor_parallel",
    "split_transformer": "tensor_parallel",
    "vocab_parallel_cross_entropy": "tensor_parallel",
    "Race": "thread_race",
    "interpreter_lock": "thread_race",
    "threads_or_processes": "thread_race",
}

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"course_lib.parallel has no name {name!r}; it offers {', '.join(__all__)}")
    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
