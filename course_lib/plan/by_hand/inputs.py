"""What the planner of one page is given: plain numbers, each with its unit."""

from __future__ import annotations

from dataclasses import dataclass

from course_lib.base.checked import checked
from course_lib.base.checks import above_zero, at_least, divides, not_negative
from course_lib.plan.inputs.cluster import ClusterSpec
from course_lib.plan.inputs.constants import Constants
from course_lib.plan.inputs.job import Job
from course_lib.plan.inputs.layout import Layout

__all__ = ["Machines", "PlannedJob", "TimedRun", "machines_of", "planned_job"]


@checked
@dataclass(frozen=True, kw_only=True)
class PlannedJob:
    """Sizes of a decoder, and of a step. ``batch``: sequences of all GPUs; ``gradient_bytes``: of each gradient."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    vocab: int
    seq: int
    batch: int
    gated: bool = False
    tied: bool = False
    gradient_bytes: int = 2

    def __post_init__(self) -> None:
        at_least(1, layers=self.layers, hidden=self.hidden, heads=self.heads, kv_heads=self.kv_heads, ffn=self.ffn)
        at_least(1, vocab=self.vocab, seq=self.seq, batch=self.batch, gradient_bytes=self.gradient_bytes)
        divides(self.heads, "heads", kv_heads=self.kv_heads)
        divides(self.hidden, "channels (hidden)", heads=self.heads)


@checked
@dataclass(frozen=True, kw_only=True)
class Machines:
    """GPUs in nodes of ``node_size``, by data sheets and a few shares.

    ``share``: of the peak that matrices reach. ``pass_s``: the host needs it to begin a pass of a layer, and none is
    shorter. ``network_bits_per_s``: of each GPU's port to other nodes, in bits. ``hidden``: the share that hides, of
    what has computing to hide behind.
    """

    gpus: int
    node_size: int
    memory_bytes: float
    reserve_bytes: float
    peak_flops_per_s: float
    share: float
    pass_s: float
    inside_bytes_per_s: float
    network_bits_per_s: float
    latency_s: float
    hidden: float

    def __post_init__(self) -> None:
        at_least(1, gpus=self.gpus, node_size=self.node_size)
        above_zero(memory_bytes=self.memory_bytes, peak_flops_per_s=self.peak_flops_per_s, share=self.share)
        above_zero(inside_bytes_per_s=self.inside_bytes_per_s, network_bits_per_s=self.network_bits_per_s)
        not_negative(reserve_bytes=self.reserve_bytes, pass_s=self.pass_s, latency_s=self.latency_s, hidden=self.hidden)


@dataclass(frozen=True, kw_only=True)
class TimedRun:
    """A run that somebody timed. ``needed_bytes``: of the fullest GPU, 0 where nobody said so."""

    job: PlannedJob
    machines: Machines
    layout: Layout
    step_s: float
    needed_bytes: float = 0.0


@checked
def planned_job(job: Job, *, gradient_bytes: int = 2) -> PlannedJob:
    """The same job, in the words of this planner. Experts, biases and positions are left out."""
    model = job.model
    return PlannedJob(
        layers=model.layers,
        hidden=model.hidden,
        heads=model.heads,
        kv_heads=model.kv_heads or model.heads,
        ffn=model.ffn,
        vocab=model.vocab,
        seq=job.seq,
        batch=job.batch,
        gated=model.gated,
        tied=model.tied,
        gradient_bytes=gradient_bytes,
    )


@checked
def machines_of(cluster: ClusterSpec, constants: Constants) -> Machines:
    """The same cluster, with the rates that its collectives reach, in the words of this planner."""
    port_bytes_per_s = cluster.node_bandwidth_bytes_per_s / cluster.node_size * constants.outside_share
    return Machines(
        gpus=cluster.gpus,
        node_size=cluster.node_size,
        memory_bytes=cluster.memory_bytes,
        reserve_bytes=constants.reserve_bytes,
        peak_flops_per_s=cluster.peak_flops_per_s,
        share=constants.matmul_share,
        pass_s=constants.host_layer_s,
        inside_bytes_per_s=cluster.domain_bandwidth_bytes_per_s * constants.inside_share,
        network_bits_per_s=8 * port_bytes_per_s,
        latency_s=constants.latency_s,
        hidden=constants.hidden_share,
    )
