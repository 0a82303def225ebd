"""Step (b) of data parallelism: gradients are sent together, in a few flat buffers, in the order in which they appear.

A message costs time even when it is small, and most gradients are small. So they are packed into buckets, each one
flat tensor with one all-reduce. Backward finds the gradients of the last layer first, so buckets are filled from the
end of the model, and the first one can travel while the gradients of the others are still being computed. The first
bucket is kept small, so that this begins early.

Source: Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training" (2020), section 3.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch import Tensor, nn

from course_lib.base.checks import at_least
from course_lib.cluster.base.rank import Rank

__all__ = ["BUCKET_SIZE_BYTES", "FIRST_BUCKET_SIZE_BYTES", "Bucket", "all_reduce_buckets", "assign_buckets"]

BUCKET_SIZE_BYTES = 25 * 2**20
FIRST_BUCKET_SIZE_BYTES = 2**20


@dataclass(eq=False)
class Bucket:
    """Some parameters, and the flat buffer in which their gradients are sent.

    ``views[i]`` is the part of ``flat`` that belongs to ``parameters[i]``, in its shape, with its strides. Where the
    dtypes agree, that part *becomes* the gradient: autograd adds to it and the optimizer reads it, so the average need
    not be copied back. A gradient that you want to keep over the next backward must be cloned.
    """

    parameters: tuple[nn.Parameter, ...]
    flat: Tensor  # (elements of all parameters together,)
    views: tuple[Tensor, ...] = field(init=False)
    ready: set[int] = field(init=False, default_factory=set)  # whose gradient is in its place

    def __post_init__(self) -> None:
        parts = self.flat.split([parameter.numel() for parameter in self.parameters])
        self.views = tuple(_laid_out(part, p) for part, p in zip(parts, self.parameters, strict=True))

    @property
    def size_bytes(self) -> int:
        return self.flat.nbytes

    @property
    def is_full(self) -> bool:
        return len(self.ready) == len(self.parameters)

    def fill(self, index: int) -> None:
        """Bring the gradient of ``parameters[index]`` to its place; a gradient that is None counts as zero."""
        parameter, view = self.parameters[index], self.views[index]
        if parameter.grad is None:
            view.zero_()
        elif parameter.grad.layout != torch.strided:
            raise RuntimeError("a gradient is sparse, and buckets are dense: ask for a dense one (sparse=False)")
        elif parameter.grad is not view:
            view.copy_(parameter.grad)
            if view.dtype == parameter.dtype:
                parameter.grad = view  # at once, which frees the memory of the copied one
        self.ready.add(index)

    def start_average(self, group: dist.ProcessGroup | None = None) -> dist.Work:
        """Start the all-reduce that replaces what is in ``flat`` by the mean over ranks; wait for what is returned."""
        work = dist.all_reduce(self.flat, op=dist.ReduceOp.AVG, group=group, async_op=True)
        assert work is not None  # None is for a rank outside the group
        return work

    def set_gradient(self, index: int) -> None:
        """Make the average the gradient of ``parameters[index]``."""
        parameter, view = self.parameters[index], self.views[index]
        if view.dtype == parameter.dtype:
            parameter.grad = view
        elif parameter.grad is None:
            parameter.grad = view.to(parameter.dtype)
        else:
            parameter.grad.copy_(view)


def assign_buckets(
    parameters: Iterable[nn.Parameter],
    *,
    bucket_size_bytes: int = BUCKET_SIZE_BYTES,
    first_bucket_size_bytes: int = FIRST_BUCKET_SIZE_BYTES,
    average_in_float32: bool = False,
) -> list[Bucket]:
    """Buckets for ``parameters``, given in the model's order; those that need no gradient are left out.

    A bucket holds one dtype, and is closed by the parameter that brings it to its size, so it may be larger. The
    first of each dtype is closed at ``first_bucket_size_bytes``. ``average_in_float32``: gradients of 16 bits travel,
    and are added up, in 32. A size below 1 is a ``ValueError``.
    """
    at_least(1, bucket_size_bytes=bucket_size_bytes, first_bucket_size_bytes=first_bucket_size_bytes)
    closed: list[list[nn.Parameter]] = []
    unclosed: dict[tuple[torch.dtype, torch.device], list[nn.Parameter]] = {}
    limit_bytes: dict[tuple[torch.dtype, torch.device], int] = {}
    for parameter in reversed([p for p in parameters if p.requires_grad]):
        kind = (_comm_dtype(parameter, average_in_float32), parameter.device)
        group = unclosed.setdefault(kind, [])
        group.append(parameter)
        if sum(p.numel() for p in group) * kind[0].itemsize >= limit_bytes.get(kind, first_bucket_size_bytes):
            closed.append(unclosed.pop(kind))
            limit_bytes[kind] = bucket_size_bytes
    return [_bucket(group, average_in_float32) for group in [*closed, *unclosed.values()]]


def _bucket(parameters: Sequence[nn.Parameter], average_in_float32: bool) -> Bucket:
    dtype = _comm_dtype(parameters[0], average_in_float32)
    num_elements = sum(parameter.numel() for parameter in parameters)
    return Bucket(tuple(parameters), torch.zeros(num_elements, dtype=dtype, device=parameters[0].device))


def _laid_out(part: Tensor, parameter: nn.Parameter) -> Tensor:
    """``part`` in the parameter's shape, in its order of dims (channels_last, say): others are slower to add to."""
    strides = torch.empty_like(parameter, device="meta").stride()  # the parameter's, less its gaps if it has any
    return part.as_strided(parameter.shape, strides, part.storage_offset())


def _comm_dtype(parameter: nn.Parameter, average_in_float32: bool) -> torch.dtype:
    return torch.float32 if average_in_float32 and parameter.dtype.itemsize < 4 else parameter.dtype


def all_reduce_buckets(me: Rank, buckets: Sequence[Bucket]) -> None:
    """After backward: replace every gradient by its mean over ranks, with one all-reduce a bucket.

    A gradient that is None counts as zero, and afterwards is the mean too. Each rank sends 2 (n - 1)/n of a bucket.
    """
    for bucket in buckets:
        for index in range(len(bucket.parameters)):
            bucket.fill(index)
        bucket.start_average().wait()
        for index in range(len(bucket.parameters)):
            bucket.set_gradient(index)
        bucket.ready.clear()
