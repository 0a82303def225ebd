"""Lessons 03 and 04, data parallelism: every worker holds the whole model, and a part of the batch.

Lesson 03, one process: ``data_parallel.py`` (nn.DataParallel taken apart), ``device_moves.py`` (its three moves and
their way back), ``copies.py`` (bytes between devices), ``device_memory.py`` (what each device holds),
``thread_race.py`` (threads against processes).

Lesson 04, a process for each device: ``distributed_data_parallel.py``, ``buckets.py``, ``buffers.py``,
``hooks.py``, ``uneven_batches.py`` (their mean), ``misuse.py`` (what goes wrong with a wrapper, and its sentences),
``distributed_sampler.py``, ``sync_batch_norm.py``, ``checkpoint.py``, ``drafts.py`` (its writers), ``drift.py``
(replicas that diverge) and ``paced_layers.py`` (a model whose computing is emulated).
Production code uses ``torch.nn.parallel.DistributedDataParallel``.
"""

from __future__ import annotations

from course_lib.lazy import loads_when_used

_HOME_OF = {
    "Bucket": "buckets",
    "CheckpointError": "checkpoint",
    "CopyCounter": "copies",
    "DataParallel": "data_parallel",
    "DistributedDataParallel": "distributed_data_parallel",
    "DistributedSampler": "distributed_sampler",
    "Drift": "drift",
    "DriftDetector": "drift",
    "GlobalBatches": "distributed_sampler",
    "PacedLayers": "paced_layers",
    "Race": "thread_race",
    "SyncBatchNorm": "sync_batch_norm",
    "all_reduce_buckets": "buckets",
    "all_reduce_gradients": "distributed_data_parallel",
    "assign_buckets": "buckets",
    "broadcast_parameters": "distributed_data_parallel",
    "find_drift": "drift",
    "fingerprints": "drift",
    "gather": "data_parallel",
    "global_mean": "uneven_batches",
    "interpreter_lock": "thread_race",
    "load_checkpoint": "checkpoint",
    "load_on_all": "checkpoint",
    "memory_by_device": "device_memory",
    "paced_step_s": "paced_layers",
    "parallel_apply": "data_parallel",
    "replicate": "data_parallel",
    "save_by_one": "checkpoint",
    "save_checkpoint": "checkpoint",
    "scatter": "data_parallel",
    "threads_or_processes": "thread_race",
}

__all__ = sorted(_HOME_OF)
__getattr__, __dir__ = loads_when_used(__name__, _HOME_OF)
