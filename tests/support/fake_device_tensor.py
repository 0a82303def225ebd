"""A tensor that lies on a device of its own and holds values: CPU memory behind PyTorch's key for foreign devices.

Nobody has many GPUs in continuous integration. What goes wrong on them first is seldom the arithmetic: it is a tensor
made on the CPU beside one on the device, or a copy to the host that nobody asked for. A ``FarTensor`` says that it is
on ``far:0``. An operation that mixes it with a CPU tensor fails as on CUDA, and what makes the host wait
for the device is noted with its line (``waits``). Messages and collectives go to gloo with the memory behind it.

Needs ``torch.utils.backend_registration._setup_privateuseone_for_python_backend`` (torch 2.10 and newer, private).
"""

from __future__ import annotations

import copy
import sys
from collections import Counter
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import return_and_correct_aliasing

FAR = "far:0"

_aten = torch.ops.aten
_MOVES = {"aten::_to_copy", "aten::copy_", "aten::set_.source_Tensor"}  # between any two devices
# Indices may lie on the host.
_INDEXING = {"aten::index", "aten::index_put_", "aten::index_put", "aten::_index_put_impl_"}
# The host has to know a value, or how many there are, before it can go on.
_WAITS = {
    "aten::_local_scalar_dense", "aten::equal", "aten::nonzero", "aten::masked_select", "aten::_unique2",
    "aten::unique_dim", "aten::unique_consecutive", "aten::bincount", "aten::is_nonzero",
}  # fmt: skip

waits: Counter[tuple[str, str]] = Counter()  # (operation, "file:line" of the course's code that asked for it)


class FarTensor(torch.Tensor):
    """``near`` is the CPU tensor behind it: of the same shape, strides and offset, and without a history."""

    __module__ = "torch"  # by which the course's comparisons know a tensor
    near: torch.Tensor

    @staticmethod
    def __new__(cls, near: torch.Tensor) -> FarTensor:
        self = torch.Tensor._make_wrapper_subclass(
            cls,
            near.shape,
            strides=near.stride(),
            storage_offset=near.storage_offset(),
            dtype=near.dtype,
            device=FAR,
        )
        self.near = near
        return self

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.namespace == "c10d":
            return _communicate(func, args, kwargs)
        name = func._schema.name
        _check_devices(name, func, args, kwargs)
        _note_wait(name, func, args, kwargs)
        goes_near = "device" in kwargs and kwargs["device"] is not None and _is_cpu(kwargs["device"])
        near_kwargs = pytree.tree_map(_near, kwargs)
        if near_kwargs.get("device") is not None:
            near_kwargs["device"] = "cpu"
        near_args = pytree.tree_map(_near, args)
        if name == "aten::copy_" and not isinstance(args[0], FarTensor):
            args[0].copy_(near_args[1])
            return args[0]
        out = func(*near_args, **near_kwargs)
        if goes_near:
            return out
        out = pytree.tree_map_only(torch.Tensor, _far, out)
        return return_and_correct_aliasing(func, args, kwargs, out)

    def data_ptr(self) -> int:
        return self.near.data_ptr()

    def untyped_storage(self) -> Any:
        return self.near.untyped_storage()

    @property
    def data(self) -> torch.Tensor:  # type: ignore[override]
        return self.detach()

    @data.setter
    def data(self, value: torch.Tensor) -> None:
        if not isinstance(value, FarTensor):
            raise RuntimeError(f"a tensor on {FAR} was given data that lies on {value.device}")
        torch.Tensor.data.__set__(self, value)  # type: ignore[attr-defined]
        self.near = value.near

    def numpy(self, *_: Any, **__: Any) -> Any:
        raise TypeError(f"can't convert {FAR} device type tensor to numpy. Use Tensor.cpu() first.")

    __array__ = numpy

    def tolist(self) -> Any:
        _note("tolist", sys._getframe(1))
        return self.near.tolist()

    def __format__(self, spec: str) -> str:
        return format(self.item() if self.dim() == 0 else repr(self), spec)

    def __deepcopy__(self, memo: dict[int, Any]) -> FarTensor:
        if id(self) in memo:
            return memo[id(self)]
        if not self.is_leaf:
            raise RuntimeError("only a tensor that the user made can be deep-copied, as everywhere in PyTorch")
        copied = FarTensor(self.near.clone())
        copied.requires_grad_(self.requires_grad)
        if isinstance(self, torch.nn.Parameter):
            copied._is_param = True
        if self.grad is not None:
            copied.grad = copy.deepcopy(self.grad, memo)
        memo[id(self)] = copied
        return copied

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _as_sent, (
            self.near.detach().clone(),
            isinstance(self, torch.nn.Parameter),
            self.requires_grad,
        )

    def __repr__(self) -> str:  # type: ignore[override]
        return f"FarTensor({self.near!r})"


def _as_sent(near: torch.Tensor, is_parameter: bool, requires_grad: bool) -> torch.Tensor:
    """A result comes to the notebook, and a checkpoint to the disk, as what the CPU can read."""
    return torch.nn.Parameter(near, requires_grad) if is_parameter else near


def to_far(tensor: torch.Tensor) -> torch.Tensor:
    """The same values on the far device, in memory of their own; a parameter stays one."""
    if isinstance(tensor, FarTensor):
        return tensor
    moved: torch.Tensor = FarTensor(tensor.detach().clone())
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(moved, requires_grad=tensor.requires_grad)
    return moved.requires_grad_(tensor.requires_grad)


def to_near(tensor: torch.Tensor) -> torch.Tensor:
    """The memory behind a far tensor as an ordinary one; nothing is counted."""
    if not isinstance(tensor, FarTensor):
        return tensor
    near = tensor.near.detach().clone()
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(near, requires_grad=tensor.requires_grad)
    return near.requires_grad_(tensor.requires_grad and near.is_floating_point())


def _near(value: Any) -> Any:
    return value.near if isinstance(value, FarTensor) else value


def _far(value: torch.Tensor) -> FarTensor:
    return value if isinstance(value, FarTensor) else FarTensor(value)


def _is_cpu(device: Any) -> bool:
    return torch.device(device).type == "cpu"


def _tensors(*values: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(values) if isinstance(leaf, torch.Tensor)]


def _check_devices(name: str, func: Any, args: Any, kwargs: Any) -> None:
    """What CUDA would refuse: a CPU tensor with at least one dim in an operation of the device."""
    if name in _MOVES:
        return
    strangers = _tensors(args[0] if name in _INDEXING else args, kwargs)
    for tensor in strangers:
        if not isinstance(tensor, FarTensor) and tensor.dim() and tensor.device.type != "meta":
            raise RuntimeError(
                f"Expected all tensors to be on the same device, but found at least two devices, {FAR} and "
                f"{tensor.device}! ({func}, a CPU tensor of shape {tuple(tensor.shape)})"
            )


def _note_wait(name: str, func: Any, args: Any, kwargs: Any) -> None:
    to_host = "device" in kwargs and kwargs["device"] is not None and _is_cpu(kwargs["device"])
    to_host = to_host or (name == "aten::copy_" and not isinstance(args[0], FarTensor))
    by_mask = name in _INDEXING and any(t.dtype in (torch.bool, torch.uint8) for t in _tensors(args[1]))
    host_index = name in _INDEXING and any(not isinstance(t, FarTensor) and t.dim() for t in _tensors(args[1]))
    if name in _WAITS or to_host or by_mask or host_index:
        _note("copy to the host" if to_host else name.removeprefix("aten::"), sys._getframe(2))


def _note(what: str, frame: Any) -> None:
    """Under the innermost line of ``course_lib``, unless a test's own line comes before it."""
    while frame is not None:
        name = frame.f_code.co_filename
        if "course_lib/" in name:
            waits[what, f"course_lib/{name.rpartition('course_lib/')[2]}:{frame.f_lineno}"] += 1
            return
        if not is_pytorch(name) and "/far_" not in name:
            return
        frame = frame.f_back


def is_pytorch(file_name: str) -> bool:
    return "/torch/" in file_name or file_name.startswith("<")


def _communicate(func: Any, args: Any, kwargs: Any) -> Any:
    """A message or collective: gloo is given the memory behind the tensors, and the caller his own tensors back."""
    owner = {id(tensor.near): tensor for tensor in _tensors(args, kwargs) if isinstance(tensor, FarTensor)}
    for tensor in _tensors(args, kwargs):
        if not isinstance(tensor, FarTensor):
            raise RuntimeError(f"{func} was given tensors on {FAR} and on {tensor.device}")
    out = func(*pytree.tree_map(_near, args), **pytree.tree_map(_near, kwargs))
    return pytree.tree_map_only(torch.Tensor, lambda tensor: owner.get(id(tensor), tensor), out)
