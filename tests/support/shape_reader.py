"""The shapes of a model's layers, read as it runs: a torch function mode sees each call, hooks tell whose it is."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from course_lib.cost.single_device.layer_shapes import Attention, Conv2d, Layer, Linear

_UNREAD = {
    torch.matmul: "matmul",
    torch.mm: "mm",
    torch.bmm: "bmm",
    torch.addmm: "addmm",
    torch.baddbmm: "baddbmm",
    torch.einsum: "einsum",
    Tensor.matmul: "matmul",
    Tensor.__matmul__: "matmul",
    Tensor.mm: "mm",
    Tensor.bmm: "bmm",
    F.conv1d: "conv1d",
    F.conv3d: "conv3d",
    F.conv_transpose2d: "conv_transpose2d",
    F.bilinear: "bilinear",
}


def layer_shapes(model: nn.Module, *inputs: Any) -> tuple[Layer, ...]:
    """Run ``model(*inputs)`` once and return its linear layers, convolutions and attentions in the order
    they ran.

    Parameters and buffers are left as they were; the random number generator of the CPU too. Raises
    ValueError for matrix work that the records cannot express (a bare matmul, a grouped convolution),
    rather than leaving it out.
    """
    buffers = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    reader = _ShapeReader(model)
    try:
        with torch.random.fork_rng(devices=[]), torch.enable_grad(), reader:
            model(*inputs)
    finally:
        with torch.no_grad():
            for buffer, before in buffers:  # BatchNorm's running statistics move at every training forward
                buffer.copy_(before)
    return tuple(reader.layers)


class _ShapeReader(TorchFunctionMode):
    """Collects a record for each linear, convolution and attention that runs inside the ``with`` block."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.layers: list[Layer] = []
        self._model = model
        self._names: list[str] = []
        self._hooks: list[Any] = []

    def __enter__(self) -> _ShapeReader:
        for name, module in self._model.named_modules():
            self._hooks.append(module.register_forward_pre_hook(self._entering(name)))
            self._hooks.append(module.register_forward_hook(self._leaving, always_call=True))
        super().__enter__()
        return self

    def __exit__(self, *failure: Any) -> None:
        super().__exit__(*failure)
        for hook in self._hooks:
            hook.remove()

    def _entering(self, name: str) -> Callable[..., None]:
        def note(module: nn.Module, args: Any) -> None:
            self._names.append(name)

        return note

    def _leaving(self, module: nn.Module, args: Any, output: Any) -> None:
        if self._names:
            self._names.pop()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        output = func(*args, **kwargs)
        name = self._names[-1] if self._names else ""
        if func is F.linear:
            self.layers.append(_linear(name, *args, **kwargs))
        elif func in (F.conv2d, torch.conv2d):
            self.layers.append(_conv2d(name, output, *args, **kwargs))
        elif func is F.scaled_dot_product_attention:
            self.layers.append(_attention(name, *args, **kwargs))
        elif func in _UNREAD:
            raise ValueError(
                f"{name or 'the model'} calls {_UNREAD[func]}, which has no shape record here; "
                "linear layers, 2-d convolutions and scaled_dot_product_attention have."
            )
        return output


def _linear(name: str, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Linear:
    out_features, in_features = weight.shape
    rows = prod(input.shape[:-1])
    return Linear(name, rows, in_features, out_features, input.requires_grad, weight.requires_grad)


def _conv2d(name: str, output: Tensor, input: Tensor, weight: Tensor, *rest: Any, **options: Any) -> Conv2d:
    out_channels, in_channels, *kernel = weight.shape
    if in_channels != input.shape[1]:
        raise ValueError(
            f"{name or 'a convolution'} has {input.shape[1] // in_channels} groups; a shape record knows 1 group."
        )
    size, window = tuple(output.shape[2:]), tuple(kernel)
    return Conv2d(
        name,
        output.shape[0],
        in_channels,
        out_channels,
        (window[0], window[1]),
        (size[0], size[1]),
        input.requires_grad,
        weight.requires_grad,
    )


def _attention(name: str, query: Tensor, key: Tensor, value: Tensor, *rest: Any, **options: Any) -> Attention:
    if value.shape[-1] != query.shape[-1]:
        raise ValueError(
            f"{name or 'an attention'} has values of {value.shape[-1]} numbers and queries of "
            f"{query.shape[-1]}; "
            "a shape record knows one head size."
        )
    batch, heads, query_len, head_dim = query.shape
    return Attention(name, batch, heads, query_len, key.shape[-2], head_dim)
