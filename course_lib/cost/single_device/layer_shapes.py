"""The matrix work of a model, as data: which layers ran, with which shapes, in which order.

The cost model (``course_lib.cost``) is arithmetic over these small records and needs no torch.
"""

from __future__ import annotations

from dataclasses import dataclass

from course_lib.base.checked import checked
from course_lib.base.checks import at_least

__all__ = ["Attention", "Conv2d", "Layer", "Linear"]


@checked
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

    def __post_init__(self) -> None:
        at_least(0, rows=self.rows, in_features=self.in_features, out_features=self.out_features)


@checked
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

    def __post_init__(self) -> None:
        at_least(0, images=self.images, in_channels=self.in_channels, out_channels=self.out_channels)


@checked
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

    def __post_init__(self) -> None:
        at_least(0, batch=self.batch, heads=self.heads, head_dim=self.head_dim)
        at_least(0, query_len=self.query_len, key_len=self.key_len)


Layer = Linear | Conv2d | Attention
