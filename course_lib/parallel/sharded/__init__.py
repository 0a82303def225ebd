"""Lesson 05, sharded data parallelism: parameters, gradients and optimizer states, cut among data-parallel ranks.

Nothing is built here yet. What it will stand on is there: ``collectives.dim_collectives`` (reduce-scatter and
all-gather that overlap), ``data.buckets`` and ``cost.memory``. Production code uses
``torch.distributed.fsdp.fully_shard``.
"""
