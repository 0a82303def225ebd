"""A cluster as the planner sees it: one kind of GPU, an NVLink domain, nodes, and what leaves a node.

Three levels: GPUs of one *domain* talk over NVLink; GPUs of one *node* share its ports to the others; nodes talk over
the network. The domain is mostly the node, and with NVL72 it is nine nodes of eight. Rates are of data sheets and in
one direction; which share of them a run gets is told by a ``Profile``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from course_lib.base.checked import checked
from course_lib.base.checks import above_zero, at_least, known, not_negative
from course_lib.cost.collectives.machines import LINKS, MACHINES, MachineSpec, machine_spec

__all__ = ["ClusterSpec", "cluster_of", "cluster_of_machine", "machine_by_name"]


@checked
@dataclass(frozen=True)
class ClusterSpec:
    """``gpus`` GPUs of one kind, ``node_size`` a node, ``domain_size`` of them joined by NVLink.

    ``node_bandwidth_bytes_per_s`` is of all ports of a node together, in one direction.
    """

    name: str
    gpus: int
    node_size: int
    domain_size: int
    memory_bytes: int  # of one GPU
    peak_flops_per_s: float
    memory_bandwidth_bytes_per_s: float
    domain_bandwidth_bytes_per_s: float  # of one GPU
    node_bandwidth_bytes_per_s: float
    host_bandwidth_bytes_per_s: float = 25e9  # of one GPU to the host's memory, for what is offloaded
    network_falloff: float = 0.0  # a group on n nodes has (2 / n) ** this of the network; 0 where switches carry all
    product_flops_per_s: float = 0.0  # of layers' matrices where they have a smaller type, as float8; 0: the peak
    domain_latencies: float = 1.0  # a call's latency within a domain, in those of NVLink
    network_latencies: float = 1.0  # and of the network, in those of InfiniBand
    attention_share: float = 0.0  # of the peak that FlashAttention-2 reaches; 0: as much as large matrices
    half_dtype: str = "bfloat16"  # the type of 16 bits that its matrices are multiplied in; float16 on older GPUs

    def __post_init__(self) -> None:
        at_least(1, gpus=self.gpus, node_size=self.node_size, domain_size=self.domain_size)
        above_zero(
            memory_bytes=self.memory_bytes,
            peak_flops_per_s=self.peak_flops_per_s,
            memory_bandwidth_bytes_per_s=self.memory_bandwidth_bytes_per_s,
            domain_bandwidth_bytes_per_s=self.domain_bandwidth_bytes_per_s,
            node_bandwidth_bytes_per_s=self.node_bandwidth_bytes_per_s,
            host_bandwidth_bytes_per_s=self.host_bandwidth_bytes_per_s,
        )
        not_negative(network_falloff=self.network_falloff, product_flops_per_s=self.product_flops_per_s)
        not_negative(attention_share=self.attention_share)
        above_zero(domain_latencies=self.domain_latencies, network_latencies=self.network_latencies)
        known("half_dtype", self.half_dtype, ("bfloat16", "float16"))

    @property
    def has_bfloat16(self) -> bool:
        """False for V100 and T4: gradients in float16 need a scaler, and some programs have none."""
        return self.half_dtype == "bfloat16"

    def with_gpus(self, gpus: int) -> ClusterSpec:
        """The same with another number of GPUs."""
        return replace(self, gpus=gpus)


@checked
def cluster_of_machine(
    spec: MachineSpec, gpus: int, *, dtype: str = "bfloat16", node_size: int | None = None
) -> ClusterSpec:
    """``gpus`` GPUs of machines like ``spec``, whose devices are one NVLink domain.

    ``dtype`` is what layers' matrices are multiplied in. With float8 attention and the output stay in 16 bits; a GPU
    without bfloat16 takes float16. ValueError for a type that the GPU has no rate for, and for GPUs that fill no whole
    machines, with the nearest number that does.
    """
    at_least(1, gpus=gpus)
    node_size = node_size or spec.num_devices
    if gpus > node_size and gpus % node_size:
        nearest = max(1, round(gpus / node_size)) * node_size
        raise ValueError(
            f"gpus is {gpus}; above {node_size}, the GPUs of one machine, it is a multiple of {node_size}. The "
            f"nearest is {nearest}."
        )
    rates = spec.matmul_flops_per_s
    half_dtype = "bfloat16" if "bfloat16" in rates else "float16"
    if dtype == "bfloat16":
        dtype = half_dtype
    rate = rates[known("dtype", dtype, rates)]
    peak = rates.get("bfloat16", rate) if dtype == "float8" else rate
    ports = spec.ports_per_node * node_size / spec.num_devices
    return ClusterSpec(
        name=spec.name,
        gpus=gpus,
        node_size=node_size,
        domain_size=spec.num_devices,
        memory_bytes=spec.memory_bytes,
        peak_flops_per_s=peak,
        product_flops_per_s=rate if dtype == "float8" else 0.0,
        memory_bandwidth_bytes_per_s=spec.memory_bandwidth_bytes_per_s,
        domain_bandwidth_bytes_per_s=spec.intra.bandwidth_bytes_per_s,
        node_bandwidth_bytes_per_s=spec.inter.bandwidth_bytes_per_s * ports,
        domain_latencies=max(1.0, spec.intra.latency_s / LINKS["nvlink 4"].latency_s),
        network_latencies=max(1.0, spec.inter.latency_s / LINKS["infiniband ndr"].latency_s),
        attention_share=spec.attention_share,
        half_dtype=half_dtype,
    )


@checked
def machine_by_name(name: str) -> MachineSpec:
    """A machine as people type it: ``8xh100`` for "8x H100". ValueError with the names and the nearest."""
    wanted = re.sub(r"[\s_-]+", "", name.lower())
    for own in MACHINES:
        if re.sub(r"\s+", "", own.lower()) == wanted:
            return MACHINES[own]
    return machine_spec(name)


@checked
def cluster_of(machine: str, *, nodes: int = 1, gpus: int | None = None, dtype: str = "bfloat16") -> ClusterSpec:
    """``nodes`` machines by name, or ``gpus`` GPUs of them."""
    at_least(1, nodes=nodes)
    spec = machine_by_name(machine)
    return cluster_of_machine(spec, nodes * spec.num_devices if gpus is None else gpus, dtype=dtype)
