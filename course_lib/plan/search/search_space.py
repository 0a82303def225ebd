"""Every layout that is worth a look: the axes' sizes that divide the GPUs, and the ways of a step for each.

What is left out, and why: sequence parallelism off where there is a tensor axis (it sends as much and keeps less);
micro-batches and chunks that are no powers of two; tensor axes of more than two NVLink domains.
"""

from __future__ import annotations

from collections.abc import Iterator

from course_lib.base.checked import checked_before
from course_lib.plan.inputs.cluster import ClusterSpec
from course_lib.plan.inputs.job import Job
from course_lib.plan.inputs.layout import RECOMPUTE, Layout
from course_lib.plan.search.constraints import divisions, divisors

__all__ = ["candidates"]

_MICRO_BATCHES = (1, 2, 4, 8, 16)
_CHUNKS = (1, 2, 4)
_TOKENS_OF_A_CONTEXT_RANK = 2048  # at least


def candidates(job: Job, cluster: ClusterSpec, *, offload: bool = False) -> Iterator[Layout]:
    """Layouts of a job on all GPUs of a cluster, legal or not as ``rules`` say; memory is not asked here."""
    gpus, model = cluster.gpus, job.model
    for tp, pp, cp, dp in divisions(
        gpus,
        most_tp=min(2 * cluster.domain_size, model.heads),
        most_pp=model.layers,
        most_cp=max(1, job.seq // _TOKENS_OF_A_CONTEXT_RANK),
    ):
        if dp <= job.batch:
            with checked_before():  # tens of thousands of layouts of our own making
                found = list(_steps(job, cluster, tp, pp, cp, dp, offload))
            yield from found


def _steps(job: Job, cluster: ClusterSpec, tp: int, pp: int, cp: int, dp: int, offload: bool) -> Iterator[Layout]:
    """The ways of a step for sizes of the axes."""
    sizes = [size for size in _MICRO_BATCHES if dp * size <= job.batch]
    chunks = [count for count in _CHUNKS if count == 1 or (pp > 1 and pp * count <= job.model.layers)]
    experts = [size for size in divisors(job.model.experts) if dp % size == 0]
    for micro_batch in sizes:
        for count in chunks:
            for ep in experts:
                for sharding, shard_size in _shardings(cluster, tp, pp, cp * dp):
                    for recompute in RECOMPUTE:
                        yield Layout(
                            tp=tp,
                            cp=cp,
                            pp=pp,
                            dp=dp,
                            ep=ep,
                            micro_batch=micro_batch,
                            chunks=count,
                            sharding=sharding,
                            shard_size=shard_size,
                            sequence_parallel=tp > 1,
                            recompute=recompute,
                            offload=offload,
                        )


def _shardings(cluster: ClusterSpec, tp: int, pp: int, size: int) -> list[tuple[int, int]]:
    """(stage, shard_size): the stages of ZeRO, and stage 3 within an NVLink domain where the axis leaves it."""
    if size == 1:
        return [(0, 0)]
    found = [(0, 0), (1, 0), (3, 0)] if pp > 1 else [(0, 0), (1, 0), (2, 0), (3, 0)]
    neighbours = cluster.domain_size // tp
    if tp <= cluster.domain_size and 1 < neighbours < size and size % neighbours == 0:
        found.append((3, neighbours))
    return found
