"""Hand-made traces of torch.profiler whose answers are known: files of one GPU's events, in us."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any


def kernel(start: float, duration: float, *, name: str = "gemm", stream: int = 7, correlation: int = 0, **args: Any):
    """A kernel, and where ``correlation`` is given the number by which its launch is found."""
    told = {"device": 0, "stream": stream, **({"correlation": correlation} if correlation else {}), **args}
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": start, "dur": duration,
            "args": told}  # fmt: skip


def nccl(start: float, duration: float, *, numbers: int = 1000, operation: str = "allreduce", **args: Any):
    """An all-reduce of so many float32 on stream 20, as PyTorch 2.3 and later describe it."""
    told = {"Collective name": operation, "In msg nelems": numbers, "Out msg nelems": numbers, "dtype": "Float"}
    return kernel(start, duration, name="ncclDevKernel_AllReduce_Sum_f32_RING_LL", stream=20, **told, **args)


def copy(start: float, duration: float, name: str = "Memcpy HtoD (Pinned -> Device)"):
    return {**kernel(start, duration, name=name, stream=22), "cat": "gpu_memcpy"}


def launch(start: float, correlation: int):
    return host("cuda_runtime", "cudaLaunchKernel", start, 5, correlation=correlation)


def host(category: str, name: str, start: float, duration: float, **args: Any):
    return {"ph": "X", "cat": category, "name": name, "pid": 99, "tid": 99, "ts": start, "dur": duration, "args": args}


def write(path: Path, *events: Any, **beside: Any) -> Path:
    """As torch.profiler writes it; compressed where the name ends in .gz."""
    text = json.dumps({"schemaVersion": 1, **beside, "traceEvents": list(events), "traceName": path.name})
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path
