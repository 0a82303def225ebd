"""Which collective a kernel or an annotation carries out, and the size of its input.

NCCL's kernels have names such as ``ncclDevKernel_AllReduce_Sum_f32_RING_LL`` (before 2.19
``ncclKernel_AllReduce_RING_LL_Sum_float``); a message or an all-to-all is a kernel ``SendRecv``. PyTorch adds what was
called, how many numbers and of which type to a kernel and to ``record_param_comms``
(torch/csrc/distributed/c10d/ParamCommsUtils.hpp).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["collective_of", "input_bytes", "is_communication", "operation_name", "size_of_inputs"]

_KERNEL = re.compile(
    r"[nr]ccl\w*?_(AllReduce|AllGather|ReduceScatter|Broadcast|Reduce|SendRecv|AllToAll)", re.IGNORECASE
)
_NAMES = {
    "allreduce": "all_reduce", "allgather": "all_gather", "allgatherbase": "all_gather",
    "allgatherintotensorcoalesced": "all_gather", "allgathercoalesced": "all_gather", "reducescatter": "reduce_scatter",
    "reducescatterbase": "reduce_scatter", "reducescattertensorcoalesced": "reduce_scatter",
    "allreducecoalesced": "all_reduce", "alltoall": "all_to_all", "alltoallv": "all_to_all",
    "alltoallbase": "all_to_all", "broadcastoop": "broadcast", "reduceoop": "reduce", "sendrecv": "send_recv",
}  # fmt: skip
_BYTES_OF = {
    "float": 4, "float32": 4, "int": 4, "int32": 4, "double": 8, "float64": 8, "long": 8, "long int": 8, "int64": 8,
    "half": 2, "c10::half": 2, "float16": 2, "bfloat16": 2, "c10::bfloat16": 2, "short": 2, "int16": 2, "char": 1,
    "signed char": 1, "unsigned char": 1, "byte": 1, "bool": 1, "int8": 1, "uint8": 1, "c10::float8_e4m3fn": 1,
    "c10::float8_e5m2": 1, "float8_e4m3fn": 1, "float8_e5m2": 1,
    "c10::complex<float>": 8, "c10::complex<double>": 16,
}  # fmt: skip


def is_communication(name: str) -> bool:
    """Whether a kernel of this name is NCCL's or RCCL's."""
    return name.lower().startswith(("nccl", "rccl", "void nccl", "mscclkernel"))


def operation_name(text: str) -> str:
    """The course's word for a collective, as other texts write it: "allreduce", "_allgather_base", "all_to_allv"."""
    plain = re.sub(r"[^a-z]", "", text.lower())
    return _NAMES.get(plain, re.sub(r"[^\w]", "_", text.strip().lower())[:40])


def collective_of(kernel: str, args: Mapping[str, Any]) -> str:
    """By what PyTorch says of the kernel, else by the kernel's name; "" where neither tells."""
    told = args.get("Collective name")
    if isinstance(told, str) and told.strip():
        return operation_name(told)
    found = _KERNEL.search(kernel)
    return operation_name(found[1]) if found else ""


def input_bytes(args: Mapping[str, Any]) -> int | None:
    """Of a kernel, or of ``record_param_comms``: the rank's input; None where it is not told."""
    count, dtype = args.get("In msg nelems"), args.get("dtype")
    if isinstance(count, bool) or not isinstance(count, int) or count < 0 or not isinstance(dtype, str):
        return None
    each = _BYTES_OF.get(dtype.lower())
    return None if each is None else count * each


def size_of_inputs(args: Mapping[str, Any]) -> int | None:
    """Of an operator or an annotation with shapes (``record_shapes=True``): its tensors; None where they are not told.

    ``Input Dims`` has a shape for each input; a list of tensors has a list of shapes, whose type is not told.
    """
    shapes, types = args.get("Input Dims"), args.get("Input type")
    if not isinstance(shapes, list) or not isinstance(types, list) or len(shapes) != len(types) or not shapes:
        return None
    total = 0
    for shape, dtype in zip(shapes, types, strict=True):
        each = _BYTES_OF.get(str(dtype).lower())
        if each is None or not isinstance(shape, list):
            return None
        count = 1
        for size in shape:
            if isinstance(size, bool) or not isinstance(size, int) or size < 0:
                return None
            count *= size
        total += count * each
    return total
