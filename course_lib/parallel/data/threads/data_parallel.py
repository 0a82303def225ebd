"""``nn.DataParallel`` taken apart: scatter, replicate, parallel apply, gather; one process, one thread a replica.

::

    parts = scatter((x,), devices)                        # cut the batch
    replicas = replicate(module, devices[: len(parts)])   # copy the weights, at every forward
    outputs = parallel_apply(replicas, parts)             # a thread for each replica
    y = gather(outputs, devices[0])                       # bring the outputs to one device

Each step is differentiable (``device_moves.py``), and that is all the machinery there is: the backward pass runs
through the four steps in reverse, and what was a copy forward is a sum backward. So the gradients of all replicas *add
up* in the parameters of the one module that was wrapped, and any optimizer works as if nothing had happened.

Devices may repeat: ``["cpu"] * 4`` is four replicas. (PyTorch's own needs GPUs: on a CPU it calls the module and does
nothing else.) It follows ``torch/nn/parallel`` of PyTorch, down to ``chunk``, which may leave a device without work:
6 rows on 4 devices are 2, 2 and 2.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_unflatten

from course_lib.parallel.data.threads.device_moves import Broadcast, Gather, Scatter, send_to

__all__ = ["DataParallel", "gather", "parallel_apply", "replicate", "scatter"]

Devices = Sequence[torch.device | str]


def scatter(inputs: Any, devices: Devices, dim: int = 0) -> list[Any]:
    """Cut every tensor in ``inputs`` (nested tuples, lists, dicts) along ``dim`` into a part for each device.

    A list of parts, each nested as ``inputs`` was; what is no tensor is given to every part as it is. The parts are
    those of ``Tensor.chunk``: all but the last are of one size, and there may be fewer than devices. Without any
    tensor there is one part. Tensors that differ in size along ``dim`` are a ``ValueError``. Backward: a gather.
    """
    targets = _as_devices(devices)
    leaves, nesting = tree_flatten(inputs)
    if not any(isinstance(leaf, Tensor) for leaf in leaves):
        return [inputs]
    _check_sizes([leaf for leaf in leaves if isinstance(leaf, Tensor)], dim)
    cut = [Scatter.apply(targets, dim, leaf) if isinstance(leaf, Tensor) else None for leaf in leaves]
    num_parts = max(len(parts) for parts in cut if parts is not None)
    return [
        tree_unflatten([leaf if parts is None else parts[r] for leaf, parts in zip(leaves, cut, strict=True)], nesting)
        for r in range(num_parts)
    ]


def replicate(module: nn.Module, devices: Devices) -> list[nn.Module]:
    """Copies of ``module``, one on each device, whose weights are connected to the original's by autograd.

    The weights of a replica are not parameters any more (``replica.parameters()`` is empty): they are *results* of a
    broadcast, and their gradients flow on to the original. Shared weights stay shared. Buffers carry no gradient;
    replica 0 shares the memory of the module's own, so that what it writes there stays, and what the others write is
    thrown away with them. Other attributes are those of the original; a replica that sets one sets its own.
    """
    targets = _as_devices(devices)
    parameters, buffers = list(module.parameters()), list(module.buffers())  # each once, if shared
    copies = iter(Broadcast.apply(targets, *parameters) if parameters else ())  # all of replica 0, then of 1, ...
    replicas = []
    for replica, device in enumerate(targets):
        new: dict[Tensor, Tensor] = {parameter: next(copies) for parameter in parameters}
        new |= {buffer: send_to(device, buffer.detach(), replica) for buffer in buffers}
        replicas.append(_shallow_copy(module, new, {}))
    return replicas


def _shallow_copy(module: nn.Module, new: Mapping[Tensor, Tensor], done: dict[nn.Module, nn.Module]) -> nn.Module:
    """The tree of modules anew, with tensors replaced; a module that is used twice is copied once (``done``)."""
    if module not in done:
        # PyTorch's own shallow copy, with no parameters in it: modules that cache their weights (RNNs) overrule it.
        copy = done[module] = module._replicate_for_data_parallel()
        for name, child in module._modules.items():
            copy._modules[name] = None if child is None else _shallow_copy(child, new, done)
        for name, tensor in chain(module._parameters.items(), module._buffers.items()):
            setattr(copy, name, None if tensor is None else new[tensor])
    return done[module]


def parallel_apply(
    replicas: Sequence[nn.Module],
    inputs: Sequence[Any],
    kwargs: Sequence[Mapping[str, Any]] | None = None,
    devices: Devices | None = None,
) -> list[Any]:
    """``replica(*args, **kwargs)`` for all replicas, each in a thread of its own; the outputs in their order.

    ``inputs[r]`` is a tuple of arguments, or the only one. A new thread records gradients and knows no autocast,
    whatever its maker does, so the caller's modes are handed over. When replicas raise, the first in order is
    named in a ``RuntimeError``, with its own exception as the cause. ``devices`` are where the replicas sit (the CPU).
    """
    keywords = [{} for _ in replicas] if kwargs is None else kwargs
    targets = [torch.device("cpu")] * len(replicas) if devices is None else _as_devices(devices)
    if not len(replicas) == len(inputs) == len(keywords) == len(targets):
        counts = f"{len(replicas)} replicas, {len(inputs)} inputs, {len(keywords)} kwargs and {len(targets)} devices"
        raise ValueError(f"there are {counts}; give one of each for every replica")
    outputs: list[Any] = [None] * len(replicas)
    failures: dict[int, Exception] = {}
    inference, recording = torch.is_inference_mode_enabled(), torch.is_grad_enabled()
    modes = [_modes_on(device) for device in targets]

    def work(r: int) -> None:
        autocast, stream = modes[r]
        args = inputs[r] if isinstance(inputs[r], (tuple, list)) else (inputs[r],)
        try:
            with torch.inference_mode(inference), torch.set_grad_enabled(recording), autocast, stream:
                outputs[r] = replicas[r](*args, **keywords[r])
        except Exception as error:
            failures[r] = error

    threads = [threading.Thread(target=work, args=(r,)) for r in range(len(replicas))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for r, error in sorted(failures.items()):
        what = f"{type(error).__name__}: {error}"
        raise RuntimeError(f"replica {r} of {len(replicas)}, on {targets[r]}, failed: {what}") from error
    return outputs


def gather(outputs: Sequence[Any], device: torch.device | str, dim: int = 0) -> Any:
    """Join what the replicas returned, tensor by tensor, along ``dim`` on ``device``.

    ``outputs`` are nested alike (tuples, lists, dicts, None), with tensors inside. Scalars have no dim to be joined
    along: they become a vector with one entry for each replica, and a warning says so. Backward: a scatter.
    """
    if not outputs:
        raise ValueError("there are no outputs to gather; give the outputs of at least one replica")
    flat = [tree_flatten(output) for output in outputs]
    for r, (_, nesting) in enumerate(flat):
        if nesting != flat[0][1]:
            raise ValueError(f"replica {r} returned {nesting}, replica 0 {flat[0][1]}; return the same from all")
    columns = zip(*(leaves for leaves, _ in flat), strict=True)
    return tree_unflatten([_gathered(column, _as_devices([device])[0], dim) for column in columns], flat[0][1])


def _gathered(column: tuple[Any, ...], device: torch.device, dim: int) -> Any:
    """One thing that all replicas returned, joined."""
    if all(item is None for item in column):
        return None
    if not all(isinstance(item, Tensor) for item in column):
        kinds = ", ".join(sorted({type(item).__name__ for item in column}))
        raise ValueError(f"a replica returned {kinds}; only tensors can be gathered, so return torch.tensor(...)")
    if all(item.dim() == 0 for item in column):
        warnings.warn("every replica returned a scalar, so the gathered result is a vector of them", stacklevel=4)
        column, dim = tuple(item.unsqueeze(0) for item in column), 0
    return Gather.apply(device, dim, *column)


class DataParallel(nn.Module):
    """``module`` on several devices: the batch is cut along ``dim``, each replica computes a part, outputs are joined.

    ``DataParallel(model, ["cuda:0", "cuda:1"])`` or, for study, ``["cpu"] * 4``. The module has to be on
    ``devices[0]`` when it is called; outputs come to ``output_device``, by default the same. The keys of
    ``state_dict()`` begin with "module.": save ``self.module.state_dict()`` instead.
    """

    def __init__(
        self,
        module: nn.Module,
        devices: Devices,
        output_device: torch.device | str | None = None,
        dim: int = 0,
    ) -> None:
        super().__init__()
        self.module, self.dim, self.devices = module, dim, _as_devices(devices)
        self.output_device = self.devices[0] if output_device is None else _as_devices([output_device])[0]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        for name, tensor in chain(self.module.named_parameters(), self.module.named_buffers()):
            if tensor.device != self.devices[0]:
                home = self.devices[0]
                raise ValueError(f"{name} is on {tensor.device}; the module has to be on the first device, {home}")
        parts = scatter((args, kwargs), self.devices, self.dim)
        if len(self.devices) == 1:
            return self.module(*parts[0][0], **parts[0][1])
        devices = self.devices[: len(parts)]
        replicas = replicate(self.module, devices)
        outputs = parallel_apply(replicas, [part[0] for part in parts], [part[1] for part in parts], devices)
        return gather(outputs, self.output_device, self.dim)


def _as_devices(devices: Devices) -> list[torch.device]:
    """The devices with their numbers: "cuda" becomes "cuda:0"."""
    if not devices or isinstance(devices, str):
        raise ValueError(f'devices is {devices!r}; give a list of at least one, such as ["cpu", "cpu"]')
    return [torch.empty(0, device=device).device for device in devices]


def _check_sizes(tensors: list[Tensor], dim: int) -> None:
    shapes = [tuple(tensor.shape) for tensor in tensors]
    if any(not -len(shape) <= dim < len(shape) for shape in shapes):
        raise ValueError(f"tensors of shapes {shapes} cannot all be cut along dim {dim}; give each of them that dim")
    if len({shape[dim] for shape in shapes}) > 1:
        needed = "put tensors that every replica needs whole into a buffer of the module"
        raise ValueError(f"tensors of shapes {shapes} differ along dim {dim}, which is cut; {needed}")


def _modes_on(device: torch.device) -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    """What the caller's thread has set for this device, for another thread to enter: autocast, and the stream."""
    kind = device.type
    # Its dtype is the one that is set now.
    autocast = torch.autocast(
        kind, enabled=torch.is_autocast_enabled(kind), cache_enabled=torch.is_autocast_cache_enabled()
    )
    return autocast, torch.cuda.stream(torch.cuda.current_stream(device)) if kind == "cuda" else nullcontext()
