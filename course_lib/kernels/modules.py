"""What the process that kernels are forked from imports: what lessons need, and the ranks of their notebooks."""

from __future__ import annotations

__all__ = ["NAMES"]

# See cluster/process/preload.py. The course's own are for the fork servers of ranks, and come before IPython: to be
# imported where that is changes the notebook.
NAMES = (
    "course_lib.cluster.process.rank_process",
    "course_lib.cluster.links.emulation",
    "course_lib.meter.communication.recorder",
    "course_lib.learn.judging.judge",
    "course_lib.learn.checks.preload",
    "ipykernel.kernelapp",
    "ipykernel.ipkernel",
    "matplotlib.figure",
    "matplotlib.backends.backend_agg",
    "numpy",
    "sklearn.datasets",
    "torch",
    "torch.distributed",
    "torch._dynamo",
    "torch.distributed.fsdp",
    "torch.distributed.tensor.parallel",
    "torch.distributed.pipelining",
    "torch.distributed.checkpoint",
    "torch.distributed.checkpoint._fsspec_filesystem",
    "torch.utils.data",
    "cloudpickle",
)
