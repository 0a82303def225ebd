"""Arguments of ``c10d`` operators, read into one form for the meter and for emulated links."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import ProcessGroup

__all__ = ["CommCall", "read", "tensors_in"]

# c10d operator -> the operation's name in the course, and the argument that holds this rank's input.
_OPERATIONS = {
    "allreduce_": ("all_reduce", "tensors"),
    "allreduce_coalesced_": ("all_reduce", "tensors"),
    "broadcast_": ("broadcast", "tensors"),
    "reduce_": ("reduce", "tensors"),
    "allgather_": ("all_gather", "input_tensors"),
    "_allgather_base_": ("all_gather", "input_tensor"),
    "allgather_coalesced_": ("all_gather", "input_list"),
    "allgather_into_tensor_coalesced_": ("all_gather", "inputs"),
    "reduce_scatter_": ("reduce_scatter", "input_tensors"),
    "_reduce_scatter_base_": ("reduce_scatter", "input_tensor"),
    "reduce_scatter_tensor_coalesced_": ("reduce_scatter", "inputs"),
    "gather_": ("gather", "input_tensors"),
    "gather_into_tensor_": ("gather", "input_tensor"),  # since torch 2.14, on NCCL alone
    "scatter_": ("scatter", "input_tensors"),
    "alltoall_": ("all_to_all", "input_tensors"),
    "alltoall_base_": ("all_to_all", "input"),
    "barrier": ("barrier", ""),
    "monitored_barrier_": ("barrier", ""),
    "send": ("send", "tensors"),
    "recv_": ("recv", "tensors"),
    "recv_any_source_": ("recv", "tensors"),
}


@dataclass(frozen=True)
class CommCall:
    """One call on this rank. *Places* are rank numbers within the group."""

    operator: str  # its name in c10d: "allreduce_"
    operation: str
    group: Any  # the ProcessGroup
    ranks: tuple[int, ...]  # of the group, as numbers in the whole job, by place
    group_rank: int  # of this rank
    size_bytes: int  # of this rank's input
    output_bytes: int  # of a scatter's output, which non-roots know too
    root: int  # the place that an operation starts from or ends at
    peer: int | None  # the place at the other end of a message; None for "whoever sends"
    tag: int
    split_bytes: tuple[int, ...] | None  # the unequal parts of an all_to_all, by receiver
    dtype: str  # of the first tensor, as "float32"; "" where there is none

    @property
    def backend(self) -> str:
        return dist.get_backend(self.group)


def read(name: str, arguments: dict[str, Any]) -> CommCall | None:
    """What the operator called ``name`` is asked to do; None for one that moves nothing."""
    if name not in _OPERATIONS:
        return None
    operation, input_name = _OPERATIONS[name]
    group = ProcessGroup.unbox(arguments["process_group"])
    split_bytes = _split_bytes(arguments) if operation == "all_to_all" else None
    tensors = tensors_in(arguments.get(input_name))
    return CommCall(
        operator=name,
        operation=operation,
        group=group,
        ranks=tuple(dist.get_process_group_ranks(group)),
        group_rank=group.rank(),
        size_bytes=_size_bytes(arguments.get(input_name)),
        output_bytes=_size_bytes(arguments.get("output_tensors")) if operation == "scatter" else 0,
        root=arguments.get("root_rank", 0),
        peer=arguments.get("dst", arguments.get("src")),
        tag=arguments.get("tag", 0),
        split_bytes=split_bytes,
        dtype=str(tensors[0].dtype).removeprefix("torch.") if tensors else "",
    )


def tensors_in(value: Any) -> list[torch.Tensor]:
    """The tensors of an argument or a result, however nested."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for part in value for tensor in tensors_in(part)]
    return []


def _size_bytes(value: Any) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors_in(value))


def _split_bytes(arguments: dict[str, Any]) -> tuple[int, ...] | None:
    """The unequal parts of an all_to_all, in bytes by receiver; None where the parts are equal."""
    if arguments.get("input_split_sizes"):
        tensor = arguments["input"]
        row_bytes = tensor.element_size() * (tensor.numel() // max(1, tensor.shape[0]))
        return tuple(row_bytes * rows for rows in arguments["input_split_sizes"])
    parts = arguments.get("input_tensors")
    if isinstance(parts, (list, tuple)) and len(parts) > 1:
        return tuple(_size_bytes(part) for part in parts)
    return None
