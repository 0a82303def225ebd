"""What a layout must obey before its memory is asked: sizes that divide, and axes that exist for the model.

A refusal is a sentence with what was given, the rule, and the nearest legal value.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from math import gcd

from course_lib.base.checks import nearest_divisor
from course_lib.plan.inputs.job import Job
from course_lib.plan.inputs.layout import Layout

__all__ = ["divisions", "divisors", "why_illegal"]


def divisors(number: int) -> tuple[int, ...]:
    """All divisors, the smallest first."""
    low = [d for d in range(1, int(number**0.5) + 1) if number % d == 0]
    return tuple(sorted({*low, *(number // d for d in low)}))


def divisions(gpus: int, *, most_tp: int, most_pp: int, most_cp: int) -> Iterator[tuple[int, int, int, int]]:
    """(tp, pp, cp, dp) whose product is ``gpus``, each of the first three up to its limit, small ``tp`` first."""
    for tp in _up_to(most_tp, gpus):
        for pp in _up_to(most_pp, gpus // tp):
            for cp in _up_to(most_cp, gpus // (tp * pp)):
                yield tp, pp, cp, gpus // (tp * pp * cp)


def _up_to(most: int, number: int) -> Iterator[int]:
    return takewhile(lambda divisor: divisor <= most, divisors(number))


def why_illegal(job: Job, layout: Layout, gpus: int) -> str | None:
    """Why the layout cannot be, whatever memory there is; None where it can."""
    return _why_axes(job, layout, gpus) or _why_batch(job, layout) or _why_pipeline(job, layout) or _why_states(layout)


def _why_axes(job: Job, layout: Layout, gpus: int) -> str | None:
    model, tp, cp, ep = job.model, layout.tp, layout.cp, layout.ep
    kv_heads = model.kv_heads or model.heads
    if layout.gpus != gpus:
        return f"tp x cp x pp x dp is {layout.gpus}, and there are {gpus} GPUs: the two must be equal"
    if model.heads % tp:
        return f"tp={tp} does not divide the {model.heads} heads: the nearest is {_near(tp, model.heads)}"
    if kv_heads % tp and tp % kv_heads:
        return (
            f"neither of tp={tp} and {kv_heads} key/value heads divides the other: the nearest tp is "
            f"{_near(tp, kv_heads)}"
        )
    if model.ffn % tp and not layout.etp:
        return f"tp={tp} does not divide the MLP's width {model.ffn}: the nearest is {_near(tp, model.ffn)}"
    if cp > 1 and job.seq % (2 * cp):
        near = _near(cp, max(1, job.seq // 2))
        return f"cp={cp} needs {2 * cp} equal pieces of {job.seq} tokens: the nearest is {near}"
    if ep > 1 and model.experts == 1:
        return f"ep={ep} shares out experts, and this model has none: the nearest is 1"
    if model.experts % ep:
        return f"ep={ep} does not divide the {model.experts} experts: the nearest is {_near(ep, model.experts)}"
    if layout.etp:
        return _why_expert_mesh(job, layout)
    if layout.dp % ep:
        folded = "" if tp * cp * layout.dp % ep else f"; or etp=1: then it divides tp x cp x dp={tp * cp * layout.dp}"
        return f"ep={ep} does not divide dp={layout.dp}: the nearest is {_near(ep, layout.dp)}{folded}"
    return None


def _why_expert_mesh(job: Job, layout: Layout) -> str | None:
    """Experts on a mesh of their own: within a stage tp x cp x dp is etp x ep x copies."""
    etp, ep, ranks = layout.etp, layout.ep, layout.tp * layout.cp * layout.dp
    if job.model.experts == 1:
        return f"etp={etp} gives experts a mesh of their own, and this model has none: leave etp out"
    near = _near(etp, gcd(job.model.ffn, ranks if ranks % ep else ranks // ep))
    if job.model.ffn % etp:
        return f"etp={etp} does not divide an expert's width {job.model.ffn}: the nearest is {near}"
    if ranks % etp:
        return f"etp={etp} does not divide the {ranks} GPUs of a stage: the nearest is {near}"
    if ranks // etp % ep:
        near = _near(ep, gcd(ranks // etp, job.model.experts))
        return f"ep={ep} x etp={etp} does not divide the {ranks} GPUs of a stage: the nearest ep is {near}"
    if layout.tp > 1 and not layout.sequence_parallel:
        return (
            f"experts on their own mesh would get the same rows from all tp={layout.tp} ranks; sequence "
            "parallelism gives each rank its own: add sp"
        )
    copies, dense = layout.expert_dp, layout.cp * layout.dp
    if layout.shard_size and copies * layout.shard_size % dense:
        near = dense // nearest_divisor(dense // layout.shard_size, gcd(copies, dense))
        return (
            f"shard_size={layout.shard_size} leaves {dense // layout.shard_size} groups, and they do not divide the "
            f"{copies} copies of an expert: the nearest shard_size is {near}"
        )
    return None


def _near(value: int, of: int) -> int:
    return nearest_divisor(value, of)


def _why_batch(job: Job, layout: Layout) -> str | None:
    at_once, dp = layout.dp * layout.micro_batch, layout.dp
    if job.batch % at_once == 0:
        return None
    if job.batch < dp:
        return f"dp={dp} ranks share a batch of {job.batch}: dp is at most {job.batch}, one sequence a rank"
    near = max(at_once, round(job.batch / at_once) * at_once)
    return (
        f"dp={dp} ranks with micro-batches of {layout.micro_batch} do not divide a batch of {job.batch}: "
        f"the nearest batch is {near}"
    )


def _why_pipeline(job: Job, layout: Layout) -> str | None:
    stages, chunks, pp = layout.pp * layout.chunks, layout.chunks, layout.pp
    if stages > job.model.layers:
        return f"{stages} stages for {job.model.layers} layers: each stage needs at least one layer"
    if chunks == 1:
        return None
    if pp == 1:
        return f"{chunks} chunks without a pipeline: with pp=1, chunks must be 1"
    count = layout.num_micro_batches(job.batch)
    if count % pp:
        return f"interleaving needs a multiple of pp={pp} micro-batches: the number is {count}, and 1 chunk works"
    return None


def _why_states(layout: Layout) -> str | None:
    size, stage, shards = layout.dp * layout.cp, layout.sharding, layout.shard_size
    if stage and size == 1 and not (layout.etp and layout.expert_dp > 1):
        return f"sharding {stage} shards states among the ranks of dp and cp: here that is 1 rank, so take sharding 0"
    if shards and size % shards:
        return f"shard_size={shards} does not divide {size} ranks of dp and cp: the nearest is {_near(shards, size)}"
    if stage == 2 and layout.pp > 1:
        return (
            "sharding 2 drops most of a gradient after each micro-batch, while a pipeline still adds to it: use 1 or 3"
        )
    if layout.sequence_parallel and layout.tp == 1:
        return "sequence parallelism needs a tensor axis, and tp is 1: leave it out"
    return None
