"""The environment variables that matter for NCCL, gloo, torch and torchrun: what each does, and for which symptom.

Those of NCCL are told after NVIDIA's documentation (NCCL user guide, "Environment Variables"). What torch reads is held
against the installed torch by a test: each name stands in the file that ``source`` names.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from course_lib.base.checked import checked

__all__ = ["SYMPTOMS", "VARIABLES", "Variable", "VariableTable", "variables_for"]

SYMPTOMS = (
    "hangs at the start",
    "hangs later",
    "slow between nodes",
    "slow within a node",
    "dies and says nothing",
    "cores fully busy, GPUs idle",
    "sees the wrong GPUs",
)
_START, _LATER, _BETWEEN, _WITHIN, _SILENT, _CORES, _GPUS = SYMPTOMS
_GUIDE = "NVIDIA, NCCL user guide"
_CUDA = "NVIDIA, CUDA programming guide"
_FOR_A_SEARCH = {
    "NCCL_IB_DISABLE", "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_NET_GDR_LEVEL", "NCCL_ALGO", "NCCL_PROTO",
    "TORCH_NCCL_BLOCKING_WAIT", "TORCH_DISTRIBUTED_DEBUG",
}  # fmt: skip
_PG_NCCL = "include/torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp"
_RUN, _LIBRARY = "distributed/run.py", "lib/libtorch_cpu.so"


@dataclass(frozen=True, kw_only=True)
class Variable:
    """One variable. ``source``: a file of the torch package, or the document that tells of it."""

    name: str
    reader: str
    does: str
    default: str
    set_it: str
    source: str
    symptoms: tuple[str, ...]

    @property
    def is_for_production(self) -> bool:
        """Whether it may stay in a script; the others are for a search, and are taken out afterwards."""
        return self.name not in _FOR_A_SEARCH


def _nccl(name: str, does: str, default: str, set_it: str, *symptoms: str) -> Variable:
    return Variable(
        name=name, reader="NCCL", does=does, default=default, set_it=set_it, source=_GUIDE, symptoms=symptoms
    )


def _torch(name: str, source: str, does: str, default: str, set_it: str, *symptoms: str) -> Variable:
    reader = "torchrun" if source.startswith("distributed/") else "torch"
    return Variable(
        name=name, reader=reader, does=does, default=default, set_it=set_it, source=source, symptoms=symptoms
    )


VARIABLES: tuple[Variable, ...] = (
    _nccl(
        "NCCL_DEBUG", "how much NCCL says: VERSION, WARN, INFO", "says nothing",
        "WARN always; INFO for a run that is slow or hangs: it names interfaces, transports, rings",
        _START, _LATER, _BETWEEN, _WITHIN, _SILENT,
    ),
    _nccl(
        "NCCL_DEBUG_SUBSYS", "the parts that INFO reports on: INIT, NET, GRAPH, ENV, ...", "INIT, BOOTSTRAP, ENV",
        "with NCCL_DEBUG=INFO; INIT,NET for a slow network",
        _START, _BETWEEN,
    ),
    _nccl(
        "NCCL_SOCKET_IFNAME", "the interfaces for NCCL's sockets, as prefixes; =eth0 is exact, ^docker excludes",
        "by itself, ib* first, lo and docker* last",
        "nodes have several interfaces, and not all of them lead to the other nodes",
        _START, _BETWEEN,
    ),
    _nccl(
        "NCCL_IB_HCA", "the InfiniBand or RoCE cards (HCA) to use; =mlx5_0 is exact", "all of them",
        "some cards are for storage, or a card is broken",
        _START, _BETWEEN,
    ),
    _nccl(
        "NCCL_IB_DISABLE", "1: sockets in place of InfiniBand and RoCE", "unset",
        "to tell whether RDMA is at fault; never leave it, the network is then many times slower",
        _START, _BETWEEN,
    ),
    _nccl(
        "NCCL_IB_TIMEOUT", "how long a card waits for an answer: 4.096 us times 2 to this number", "20, about 4.3 s",
        "large networks whose links blink: 22 or 23",
        _LATER, _SILENT,
    ),
    _nccl(
        "NCCL_P2P_DISABLE", "1: GPUs of a node no longer reach each other directly, by NVLink or PCIe", "unset",
        "to tell whether direct access hangs (virtual machines, IOMMU); never leave it, NVLink is then unused",
        _START, _WITHIN,
    ),
    _nccl(
        "NCCL_SHM_DISABLE", "1: no shared memory between the processes of a node", "unset",
        "to tell whether a small /dev/shm of a container is at fault; never leave it, mend the container",
        _START, _WITHIN,
    ),
    _nccl(
        "NCCL_NET_GDR_LEVEL", "how far a card may be from a GPU that it reads directly (GPU Direct RDMA)",
        "by the topology", "to tell whether direct access by the card is at fault; never leave it",
        _BETWEEN,
    ),
    _nccl(
        "NCCL_ALGO", "the algorithms that it may choose from: Ring, Tree, ...", "by size and topology",
        "for an experiment; never leave it, the next version chooses better than your line",
        _BETWEEN, _WITHIN,
    ),
    _nccl(
        "NCCL_PROTO", "the protocols that it may choose from: LL, LL128, Simple", "by size and topology",
        "for an experiment; never leave it: LL128 where the hardware cannot do it corrupts data",
        _BETWEEN, _WITHIN,
    ),
    _torch(
        "GLOO_SOCKET_IFNAME", _LIBRARY, "the interface for gloo's sockets, its exact name",
        "the one that this host's name leads to",
        "gloo says that it cannot connect, or connects to 127.0.1.1: the host's name leads to loopback",
        _START, _BETWEEN,
    ),
    _torch(
        "TORCH_NCCL_ASYNC_ERROR_HANDLING", _PG_NCCL,
        "what a rank does after its collective failed or timed out; 0: it waits for ever, 1 and 3: it ends",
        "3; torchrun sets 1",
        "leave the default: with 0 a dead rank costs the rest of the reservation",
        _LATER,
    ),
    _torch(
        "TORCH_NCCL_BLOCKING_WAIT", _PG_NCCL, "1: wait() blocks the host until the collective is done, and raises",
        "0", "for a search: the error then comes at the line that waits; never leave it, it costs the overlap",
        _LATER,
    ),
    _torch(
        "TORCH_FR_BUFFER_SIZE", "include/torch/csrc/distributed/c10d/FlightRecorder.hpp",
        "how many collectives the flight recorder keeps (formerly TORCH_NCCL_TRACE_BUFFER_SIZE); 0: none", "2000",
        "more, where a step has more collectives than that",
        _LATER,
    ),
    _torch(
        "TORCH_NCCL_DUMP_ON_TIMEOUT", _PG_NCCL, "1: after a timeout each rank writes its flight recorder to a file",
        "1; in older versions 0",
        "1, if your torch may be old; torchfrtrace reads the files",
        _LATER, _SILENT,
    ),
    _torch(
        "TORCH_FR_DUMP_TEMP_FILE", _LIBRARY,
        "the file's name: this text and the rank's number (also TORCH_NCCL_DEBUG_INFO_TEMP_FILE)",
        "under the home, or /tmp",
        "a disk that outlives the node",
        _LATER, _SILENT,
    ),
    _torch(
        "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", _PG_NCCL,
        "after how long the watchdog itself counts as stuck, and the rank is killed", "480",
        "more, where a first compilation or a slow disk takes longer",
        _SILENT,
    ),
    _torch(
        "TORCH_NCCL_DESYNC_DEBUG", _PG_NCCL, "1: after a timeout, say which rank was in which collective", "0",
        "with a hang that comes again",
        _LATER,
    ),
    _torch(
        "TORCH_DISTRIBUTED_DEBUG", "include/torch/csrc/distributed/c10d/debug.h",
        "DETAIL: each collective is compared among ranks first; INFO: DDP reports its buckets", "OFF",
        "for a run on few ranks that hangs or computes nonsense; never leave it, it is slow",
        _LATER,
    ),
    _torch(
        "MASTER_ADDR", "distributed/elastic/agent/server/local_elastic_agent.py",
        "where ranks meet; torchrun sets it for them", "none",
        "never by hand under torchrun; without torchrun the same on all ranks",
        _START,
    ),
    _torch(
        "MASTER_PORT", "distributed/elastic/agent/server/local_elastic_agent.py",
        "the port there", "none", "as MASTER_ADDR; a port that another job has taken looks like a hang",
        _START,
    ),
    _torch(
        "PET_", "distributed/argparse_util.py",
        "PET_NNODES and so on: each option of torchrun may stand in the environment", "unset",
        "for an image's or a cluster's defaults; look here if torchrun does something that no option asks for",
        _START,
    ),
    _torch(
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "distributed/elastic/rendezvous/dynamic_rendezvous.py",
        "1: ranks get a store of their own, in place of the rendezvous's", "0",
        "with --max-restarts: or restarted ranks may look for dead ones at their old addresses",
        _LATER,
    ),
    _torch(
        "OMP_NUM_THREADS", _RUN, "threads of each rank for work on the CPU",
        "1, set by torchrun if it starts several ranks, with a warning",
        "cores of the node / ranks on it",
        _CORES,
    ),
    Variable(
        name="CUDA_VISIBLE_DEVICES", reader="CUDA", does="the GPUs of this process, in this order, counted from 0",
        default="all", set_it="the queue sets it; set it by hand for a part of a machine. Never give each rank one "
        "GPU under torchrun, where rank 3 of the node takes cuda:3",
        source=_CUDA, symptoms=(_GPUS,),
    ),
    Variable(
        name="CUDA_DEVICE_MAX_CONNECTIONS", reader="CUDA", does="queues between the host and a GPU",
        default="8", set_it="1, where a program relies on the order in which kernels are issued (Megatron-LM, for "
        "tensor parallelism on GPUs before Blackwell)",
        source=_CUDA, symptoms=(_WITHIN,),
    ),
)  # fmt: skip
"""All variables of lesson 12, in the order: NCCL, gloo, torch, torchrun, CUDA."""


class VariableTable(tuple[Variable, ...]):
    """Variables that print as a table."""

    def __str__(self) -> str:
        lines = []
        for one in self:
            mark = " " if one.is_for_production else "*"
            lines.append(f"{mark} {one.name}  ({one.reader}; by default: {one.default})")
            lines += [f"      {one.does}", f"      set it: {one.set_it}"]
        if not all(one.is_for_production for one in self):
            lines.append("* for a search: take it out of the script afterwards")
        return "\n".join(lines)


@checked
def variables_for(symptom: str, among: Iterable[Variable] = VARIABLES) -> VariableTable:
    """The variables to look at for a symptom of ``SYMPTOMS``; ``ValueError`` with those for another word."""
    if symptom not in SYMPTOMS:
        raise ValueError(f"{symptom!r} is none of the symptoms: {', '.join(map(repr, SYMPTOMS))}")
    return VariableTable(one for one in among if symptom in one.symptoms)
