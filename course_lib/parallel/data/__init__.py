"""Lessons 03 and 04, data parallelism: every worker holds the whole model, and a part of the batch.

Lesson 03, one process: ``threads/data_parallel.py`` (nn.DataParallel taken apart), ``threads/device_moves.py`` (its
three moves and their way back), ``copy_counter.py`` (bytes between devices), ``threads/device_memory.py`` (what each
device holds), ``threads/thread_race.py`` (threads against processes).

Lesson 04, a process for each device: ``naive_ddp.py``, ``buckets.py``, ``distributed_data_parallel.py``,
``buffers.py``, ``hooks.py``, ``uneven_batches.py`` (their mean, and that of tokens), ``ddp_errors.py`` (what goes wrong
with a wrapper, and its sentences), ``distributed_sampler.py``, ``sync_batch_norm.py``, ``checkpoint.py``,
``atomic_files.py`` (its writers), ``replica_divergence.py`` (replicas that diverge), ``replica_check.py`` (ranks that
were given different models, for the strategies of other rooms) and ``paced_layers.py`` (a model whose computing is
emulated). Production code uses ``torch.nn.parallel.DistributedDataParallel``.
"""

from __future__ import annotations

from course_lib.base.lazy import loads_when_used

_HOME_OF = {
    "Bucket": "buckets",
    "CheckpointError": "checkpoint",
    "CopyCounter": "copy_counter",
    "DataParallel": "threads.data_parallel",
    "DistributedDataParallel": "distributed_data_parallel",
    "DistributedSampler": "distributed_sampler",
    "Divergence": "replica_divergence",
    "DivergenceDetector": "replica_divergence",
    "GlobalBatches": "distributed_sampler",
    "IGNORED": "uneven_batches",
    "PacedLayers": "paced_layers",
    "Race": "threads.thread_race",
    "SyncBatchNorm": "sync_batch_norm",
    "all_reduce_buckets": "buckets",
    "all_reduce_gradients": "naive_ddp",
    "assign_buckets": "buckets",
    "backward_per_token": "uneven_batches",
    "broadcast_parameters": "naive_ddp",
    "find_divergence": "replica_divergence",
    "fingerprints": "replica_divergence",
    "gather": "threads.data_parallel",
    "global_mean": "uneven_batches",
    "interpreter_lock": "threads.thread_race",
    "load_checkpoint": "checkpoint",
    "load_on_all": "checkpoint",
    "memory_by_device": "threads.device_memory",
    "paced_step_s": "paced_layers",
    "parallel_apply": "threads.data_parallel",
    "replicate": "threads.data_parallel",
    "save_by_one": "checkpoint",
    "save_checkpoint": "checkpoint",
    "scatter": "threads.data_parallel",
    "threads_or_processes": "threads.thread_race",
}

__all__ = sorted(_HOME_OF)
__getattr__, __dir__ = loads_when_used(__name__, _HOME_OF)
