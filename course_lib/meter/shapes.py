"""The matrix work of a model, as data: which layers ran, with which shapes, in which order.

The cost model (``course_lib.cost``) is arithmetic over these small records and needs no torch;
``layer_shapes`` reads them off a real module by running it once. The records live here, below the cost
model, so that both may use them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

__all__ = ["Attention", "Conv2d", "Layer", "Linear", "layer_shapes"]


@dataclass(frozen=True)
class Linear:
    """``rows`` vectors of ``in_features`` numbers, each turned into ``out_features`` numbers.

    ``input_grad`` and ``weight_grad`` say which gradients the backward pass has to compute: the first layer
    of a network needs none for its input, a frozen layer none for its weight.
    """

    name: str
    rows: int
    in_features: int
    out_features: int
    input_grad: bool = True
    weight_grad: bool = True


@dataclass(frozen=True)
class Conv2d:
    """A convolution of ``images`` pictures: ``kernel`` and ``out_size`` are (height, width)."""

    name: str
    images: int
    in_channels: int
    out_channels: int
    kernel: tuple[int, int]
    out_size: tuple[int, int]
    input_grad: bool = True
    weight_grad: bool = True


@dataclass(frozen=True)
class Attention:
    """``heads`` query heads, each comparing ``query_len`` positions with ``key_len`` positions in
    ``head_dim`` numbers.

    ``heads`` counts query heads: shared key and value heads save memory and no arithmetic.
    """

    name: str
    batch: int
    heads: int
    query_len: int
    key_len: int
    head_dim: int


Layer = Linear | Conv2d | Attention


def layer_shapes(model: nn.Module, *inputs: Any) -> tuple[Layer, ...]:
    """Run ``model(*inputs)`` once and return its linear layers, convolutions and attentions in the order
    they ran.

    Parameters and buffers are left as they were; the random number generator of the CPU too. Raises
    ValueError for matrix work that the records cannot express (a bare matmul, a grouped convolution),
    rather than leaving it out.
    """
    import torch

    from ._shape_reader import ShapeReader

    buffers = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    reader = ShapeReader(model)
    try:
        with torch.random.fork_rng(devices=[]), torch.enable_grad(), reader:
            model(*inputs)
    finally:
        with torch.no_grad():
            for buffer, before in buffers:  # BatchNorm's running statistics move at every training forward
                buffer.copy_(before)
    return tuple(reader.layers)
