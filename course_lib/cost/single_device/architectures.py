"""The matrix work of the course's models, written down from their sizes alone.

A test holds them together with what runs. These need no model, no torch and no memory, so they also answer for a
model that this machine could not hold.
"""

from __future__ import annotations

from math import ceil
from typing import Protocol

from course_lib.base.checked import checked
from course_lib.base.checks import at_least
from course_lib.cost.single_device.layer_shapes import Attention, Conv2d, Layer, Linear

__all__ = ["TransformerSizes", "cnn_layers", "transformer_layers", "transformer_parameters"]


class TransformerSizes(Protocol):
    """What the formulas ask of a configuration; ``course_lib.models.TransformerConfig`` has it all."""

    @property
    def vocab_size(self) -> int: ...
    @property
    def context_length(self) -> int: ...
    @property
    def num_layers(self) -> int: ...
    @property
    def width(self) -> int: ...
    @property
    def num_heads(self) -> int: ...
    @property
    def kv_heads(self) -> int: ...
    @property
    def head_dim(self) -> int: ...
    @property
    def mlp_hidden(self) -> int: ...
    @property
    def dropout(self) -> float: ...
    @property
    def bias(self) -> bool: ...
    @property
    def tied(self) -> bool: ...


@checked
def transformer_layers(config: TransformerSizes, *, batch_size: int, length: int | None = None) -> tuple[Layer, ...]:
    """A ``Transformer`` reading ``batch_size`` sequences of ``length`` tokens (by default the context)."""
    length = config.context_length if length is None else length
    at_least(1, batch_size=batch_size, length=length)
    rows, width, heads = batch_size * length, config.width, config.num_heads
    layers: list[Layer] = []
    for i in range(config.num_layers):
        block = f"blocks.{i}"
        layers += [
            Linear(f"{block}.attention.w_q", rows, width, heads * config.head_dim),
            Linear(f"{block}.attention.w_k", rows, width, config.kv_heads * config.head_dim),
            Linear(f"{block}.attention.w_v", rows, width, config.kv_heads * config.head_dim),
            Attention(f"{block}.attention", batch_size, heads, length, length, config.head_dim),
            Linear(f"{block}.attention.w_out", rows, heads * config.head_dim, width),
            Linear(f"{block}.mlp.w_up", rows, width, config.mlp_hidden),
            Linear(f"{block}.mlp.w_down", rows, config.mlp_hidden, width),
        ]
    return (*layers, Linear("head.w_vocab", rows, width, config.vocab_size))


@checked
def transformer_parameters(config: TransformerSizes) -> tuple[int, ...]:
    """The size of each parameter tensor of a ``Transformer``: their sum is its number of parameters."""
    width, norm = config.width, [config.width] * (1 + config.bias)
    sizes = [config.vocab_size * width, config.context_length * width]
    for layer in transformer_layers(config, batch_size=1, length=1):
        if isinstance(layer, Linear):
            last = layer.name.startswith("head")  # its matrix may be the embedding's; it never has a bias
            sizes += [] if last and config.tied else [layer.in_features * layer.out_features]
            sizes += [layer.out_features] if config.bias and not last else []
    return (*sizes, *(norm * (2 * config.num_layers + 1)))


@checked
def cnn_layers(
    *,
    batch_size: int,
    image_size: tuple[int, int] = (8, 8),
    num_classes: int = 10,
    channels: int = 1,
    width: int = 32,
) -> tuple[Layer, ...]:
    """A ``SmallCNN`` reading ``batch_size`` images of ``image_size`` (height, width)."""
    sizes = [image_size, _halved(image_size), _halved(_halved(image_size))]
    wide = [channels, width, 2 * width, 4 * width]
    names = ["stem.0", "blocks.0.0", "blocks.1.0"]
    convolutions = [
        Conv2d(names[i], batch_size, wide[i], wide[i + 1], (3, 3), sizes[i], input_grad=i > 0) for i in range(3)
    ]
    return (*convolutions, Linear("head.2", batch_size, 4 * width, num_classes))


def _halved(size: tuple[int, int]) -> tuple[int, int]:
    return ceil(size[0] / 2), ceil(size[1] / 2)
