"""Named machines: what their makers say they can do, for plans about hardware that is not at hand.

Rates are peaks from data sheets; a run reaches a share of them (``mfu``). Bandwidths are in one direction, and a
data sheet that adds both directions is halved here. Memory is what ``nvidia-smi`` tells, which is more than the
sheet's gigabytes and somewhat less than the chips hold. Link latencies are round numbers of what small messages take
with NCCL, and the least certain of all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from course_lib.base.checked import checked
from course_lib.base.checks import above_zero, at_least, known
from course_lib.cost.collectives.network import Network
from course_lib.layouts.link import Link

__all__ = ["LINKS", "MACHINES", "MachineSpec", "machine_spec"]

_GB, _MIB = 10**9, 2**20

LINKS = {
    "nvlink 2": Link(5e-6, 150e9),  # V100: 300 GB/s both ways (NVIDIA V100 data sheet)
    "nvlink 3": Link(5e-6, 300e9),  # A100: 600 GB/s both ways (NVIDIA A100 data sheet)
    "nvlink 4": Link(5e-6, 450e9),  # H100, H200: 900 GB/s both ways (NVIDIA H100 data sheet)
    "nvlink 5": Link(5e-6, 900e9),  # B200: 1.8 TB/s both ways (NVIDIA HGX B200 page)
    "infinity fabric 3": Link(5e-6, 448e9),  # MI300X: seven links of 64 GB/s one way, all of which rings use
    "pcie 4 x16": Link(10e-6, 25e9),  # 32 GB/s on the wire; about 25 GB/s reach a copy
    "pcie 4 x16 through the host": Link(20e-6, 12.5e9),  # GeForce has no peer-to-peer: two copies, one after the other
    "pcie 3 x16 through the host": Link(20e-6, 6.25e9),  # 16 GB/s on the wire, 12.5 reach a copy; virtual machines: two
    "infiniband edr": Link(8e-6, 12.5e9),  # 100 Gbit/s
    "infiniband hdr": Link(8e-6, 25e9),  # 200 Gbit/s
    "infiniband ndr": Link(8e-6, 50e9),  # 400 Gbit/s
    "ethernet 100": Link(25e-6, 12.5e9),
    "ethernet 10": Link(50e-6, 1.25e9),
    "ethernet 1": Link(100e-6, 0.125e9),
}


@checked
@dataclass(frozen=True)
class MachineSpec:
    """One machine, a node of a cluster: its devices and its links.

    ``inter`` joins two such machines by one port, of which each has ``ports_per_node``.
    ``matmul_flops_per_s`` is by dtype, for one device. ``device_watts`` is one device at full work, by its maker's data
    sheet; hosts, network and cooling come on top. ``also_called``: other names that people type. ``attention_share``:
    of the peak that FlashAttention-2 reaches, where somebody has measured it; 0: nobody has, and it is taken to reach
    as much as matrices.
    """

    name: str
    num_devices: int
    memory_bytes: int
    memory_bandwidth_bytes_per_s: float
    intra: Link
    inter: Link
    ports_per_node: int = 1
    matmul_flops_per_s: dict[str, float] = field(default_factory=dict)
    source: str = ""
    device_watts: float | None = None
    attention_share: float = 0.0
    also_called: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        at_least(1, num_devices=self.num_devices, ports_per_node=self.ports_per_node)
        above_zero(memory_bytes=self.memory_bytes, memory_bandwidth_bytes_per_s=self.memory_bandwidth_bytes_per_s)
        for dtype, rate in self.matmul_flops_per_s.items():
            above_zero(**{f"matmul_flops_per_s[{dtype!r}]": rate})

    def network(self, num_ranks: int) -> Network:
        """The network of ``num_ranks`` ranks, a device each: one machine, or as many whole ones as it takes."""
        at_least(1, num_ranks=num_ranks)
        if num_ranks <= self.num_devices:
            return Network.uniform(num_ranks, self.intra)
        if num_ranks % self.num_devices:
            nearest = round(num_ranks / self.num_devices) * self.num_devices
            raise ValueError(
                f"num_ranks is {num_ranks}; above {self.num_devices}, the devices of one machine, it is a multiple of "
                f"{self.num_devices}. The nearest is {nearest}."
            )
        num_nodes = num_ranks // self.num_devices
        return Network.nodes(
            num_nodes,
            self.num_devices,
            intra=self.intra,
            inter=self.inter,
            ports_per_node=self.ports_per_node,
        )

    def compute_time_s(self, num_flops: float, *, dtype: str, share_of_peak: float = 1.0) -> float:
        """How long one device computes, in seconds, at a share of its rate for ``dtype``."""
        if not 0 < share_of_peak <= 1:
            raise ValueError(f"share_of_peak is {share_of_peak}; it lies above 0 and at most at 1.")
        rate = self.matmul_flops_per_s[known("dtype", dtype, self.matmul_flops_per_s)]
        return num_flops / (rate * share_of_peak)


def _eight_gpus(name: str, ports: int, links: tuple[str, str], **numbers: Any) -> MachineSpec:
    intra, inter = (LINKS[link] for link in links)
    return MachineSpec(name, num_devices=8, intra=intra, inter=inter, ports_per_node=ports, **numbers)


# FlashAttention-2 on H100 with heads of 128 and 4,096 tokens: 319 TFLOP/s forward, causal, and 310 backward (the paper
# on FlashAttention-3, arXiv 2407.08608, figures 5 and 6). It uses the instructions of A100, not those of Hopper.
_HOPPER_ATTENTION = 0.32

_HOPPER_FLOPS_PER_S = {
    "float32": 67e12,
    "tf32": 494e12,
    "bfloat16": 989e12,
    "float16": 989e12,
    "float8": 1979e12,
    "float64": 67e12,
}

MACHINES = {
    spec.name: spec
    for spec in (
        _eight_gpus(
            "8x V100",
            4,
            ("nvlink 2", "infiniband edr"),
            memory_bytes=32510 * _MIB,
            memory_bandwidth_bytes_per_s=0.9e12,
            # No bfloat16, no tf32.
            matmul_flops_per_s={"float32": 15.7e12, "float16": 125e12, "float64": 7.8e12},
            device_watts=300.0,
            source="NVIDIA V100 SXM2 data sheet; DGX-1 data sheet for its four ports",
        ),
        _eight_gpus(
            "8x A100",
            8,
            ("nvlink 3", "infiniband hdr"),
            memory_bytes=81920 * _MIB,
            memory_bandwidth_bytes_per_s=2.039e12,
            matmul_flops_per_s={
                "float32": 19.5e12,
                "tf32": 156e12,
                "bfloat16": 312e12,
                "float16": 312e12,
                "float64": 19.5e12,
            },
            device_watts=400.0,
            also_called=("DGX A100",),
            source="NVIDIA A100 80GB SXM data sheet, dense rates; DGX A100 data sheet for its eight ports",
        ),
        _eight_gpus(
            "8x H100",
            8,
            ("nvlink 4", "infiniband ndr"),
            memory_bytes=81559 * _MIB,
            memory_bandwidth_bytes_per_s=3.35e12,
            matmul_flops_per_s=_HOPPER_FLOPS_PER_S,
            attention_share=_HOPPER_ATTENTION,
            device_watts=700.0,
            also_called=("DGX H100",),
            source="NVIDIA H100 SXM data sheet, dense rates; DGX H100 data sheet for its eight ports",
        ),
        _eight_gpus(
            "8x H200",
            8,
            ("nvlink 4", "infiniband ndr"),
            memory_bytes=143771 * _MIB,
            memory_bandwidth_bytes_per_s=4.8e12,
            matmul_flops_per_s=_HOPPER_FLOPS_PER_S,
            attention_share=_HOPPER_ATTENTION,
            device_watts=700.0,
            also_called=("DGX H200",),
            source="NVIDIA H200 SXM data sheet, dense rates; DGX H200 data sheet for its eight ports",
        ),
        _eight_gpus(
            "8x B200",
            8,
            ("nvlink 5", "infiniband ndr"),
            memory_bytes=183359 * _MIB,
            memory_bandwidth_bytes_per_s=7.7e12,
            matmul_flops_per_s={
                "float32": 75e12,
                "tf32": 1.1e15,
                "bfloat16": 2.25e15,
                "float16": 2.25e15,
                "float8": 4.5e15,
                "float64": 37e12,
            },
            device_watts=1000.0,
            also_called=("DGX B200",),
            source="NVIDIA HGX B200 page, dense rates (half of those with sparsity); memory as nvidia-smi prints it; "
            "DGX B200 user guide for its eight ports",
        ),
        MachineSpec(
            "72x GB200",
            num_devices=72,
            memory_bytes=186 * _GB,
            memory_bandwidth_bytes_per_s=8e12,
            intra=LINKS["nvlink 5"],
            inter=LINKS["infiniband ndr"],
            ports_per_node=72,
            matmul_flops_per_s={
                "float32": 80e12,
                "tf32": 1.25e15,
                "bfloat16": 2.5e15,
                "float16": 2.5e15,
                "float8": 5e15,
                "float64": 40e12,
            },
            device_watts=1200.0,
            also_called=("NVL72", "GB200 NVL72"),
            source="NVIDIA GB200 NVL72 page, dense rates (half of those with sparsity), memory as the page says. It "
            "is one NVLink domain of 72, so it counts as one machine here",
        ),
        _eight_gpus(
            "8x MI300X",
            8,
            ("infinity fabric 3", "infiniband ndr"),
            memory_bytes=192 * 1024 * _MIB,
            memory_bandwidth_bytes_per_s=5.3e12,
            matmul_flops_per_s={
                "float32": 163.4e12,
                "tf32": 653.7e12,
                "bfloat16": 1307.4e12,
                "float16": 1307.4e12,
                "float8": 2614.9e12,
                "float64": 163.4e12,
            },
            device_watts=750.0,
            also_called=("MI300",),
            source="AMD Instinct MI300X data sheet, dense matrix rates",
        ),
        MachineSpec(
            "4x RTX 4090",
            num_devices=4,
            memory_bytes=24564 * _MIB,
            memory_bandwidth_bytes_per_s=1.008e12,
            intra=LINKS["pcie 4 x16 through the host"],
            inter=LINKS["ethernet 10"],
            matmul_flops_per_s={
                "float32": 82.6e12,
                "tf32": 82.6e12,
                "bfloat16": 165.2e12,
                "float16": 165.2e12,
                "float8": 330.3e12,
            },
            device_watts=450.0,
            source="NVIDIA Ada architecture white paper, dense rates with float32 sums",
        ),
        MachineSpec(
            "2x T4",
            num_devices=2,
            memory_bytes=15360 * _MIB,
            memory_bandwidth_bytes_per_s=0.32e12,
            intra=LINKS["pcie 3 x16 through the host"],
            inter=LINKS["ethernet 10"],
            matmul_flops_per_s={"float32": 8.1e12, "float16": 65e12},  # No bfloat16, no tf32; its sheet has no float64.
            device_watts=70.0,
            source="NVIDIA T4 data sheet; here two in one virtual machine, as Kaggle lends them",
        ),
    )
}


@checked
def machine_spec(name: str) -> MachineSpec:
    """A machine by name. Raises ValueError with the names there are."""
    return MACHINES[known("machine", name, MACHINES)]
