"""Every layout that is worth a look: the axes' sizes that divide the GPUs, and the ways of a step for each.

What is left out, and why: sequence parallelism off where there is a tensor axis (it sends as much and keeps less);
micro-batches and chunks that are no powers of two; tensor axes of more than two NVLink domains. And experts on a mesh
of their own, unless they are asked for.
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


def candidates(job: Job, cluster: ClusterSpec, *, offload: bool = False, expert_mesh: bool = False) -> Iterator[Layout]:
    """Layouts of a job on all GPUs of a cluster, legal or not as ``rules`` say; memory is not asked here.

    ``expert_mesh``: of a model with experts those with a mesh of their own (``etp``), and no others.
    """
    gpus, model = cluster.gpus, job.model
    for tp, pp, cp, dp in divisions(
        gpus,
        most_tp=min(2 * cluster.domain_size, model.heads),
        most_pp=model.layers,
        most_cp=max(1, job.seq // _TOKENS_OF_A_CONTEXT_RANK),
    ):
        if dp <= job.batch:
            with checked_before():  # tens of thousands of layouts of our own making
                found = list(_steps(job, cluster, tp, pp, cp, dp, offload, expert_mesh))
            yield from found


def _steps(
    job: Job, cluster: ClusterSpec, tp: int, pp: int, cp: int, dp: int, offload: bool, expert_mesh: bool
) -> Iterator[Layout]:
    """The ways of a step for sizes of the axes."""
    sizes = [size for size in _MICRO_BATCHES if dp * size <= job.batch]
    chunks = [count for count in _CHUNKS if count == 1 or (pp > 1 and pp * count <= job.model.layers)]
    if expert_mesh:
        experts = _expert_meshes(job, cluster, tp * cp * dp)
    else:
        experts = [(size, 0) for size in divisors(job.model.experts) if dp % size == 0]
    for micro_batch in sizes:
        for count in chunks:
            for ep, etp in experts:
                for sharding, shard_size in _shardings(cluster, tp, pp, cp * dp, bool(etp) and tp * cp * dp > ep * etp):
                    for recompute in RECOMPUTE:
                        yield Layout(
                            tp=tp,
                            cp=cp,
                            pp=pp,
                            dp=dp,
                            ep=ep,
                            etp=etp,
                            micro_batch=micro_batch,
                            chunks=count,
                            sharding=sharding,
                            shard_size=shard_size,
                            sequence_parallel=tp > 1,
                            recompute=recompute,
                            offload=offload,
                        )


def _expert_meshes(job: Job, cluster: ClusterSpec, ranks: int) -> list[tuple[int, int]]:
    """(ep, etp) for a stage of ``ranks``; experts are cut within an NVLink domain alone. None without experts."""
    if job.model.experts == 1:
        return []
    cuts = [etp for etp in divisors(ranks) if etp <= cluster.domain_size and job.model.ffn % etp == 0]
    return [(ep, etp) for etp in cuts for ep in divisors(job.model.experts) if ranks // etp % ep == 0]


def _shardings(cluster: ClusterSpec, tp: int, pp: int, size: int, has_copies: bool) -> list[tuple[int, int]]:
    """(stage, shard_size): the stages of ZeRO, and stage 3 within an NVLink domain where the axis leaves it.

    ``has_copies``: experts on a mesh of their own do, which share states out beside a data axis of one rank too.
    """
    if size == 1:
        return [(0, 0), (1, 0)] if has_copies else [(0, 0)]
    found = [(0, 0), (1, 0), (3, 0)] if pp > 1 else [(0, 0), (1, 0), (2, 0), (3, 0)]
    neighbours = cluster.domain_size // tp
    if tp <= cluster.domain_size and 1 < neighbours < size and size % neighbours == 0:
        found.append((3, neighbours))
    return found
