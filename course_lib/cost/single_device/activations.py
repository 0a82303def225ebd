"""How many bytes the forward pass keeps for the backward pass.

A gradient needs what the forward pass knew: a linear layer its input, a ReLU its output, a norm its input
and two numbers a row. What is kept under two names is counted once; parameters are not counted here, nor is
the batch itself (it was there before). The rules are PyTorch's own, with its fused attention, and a test
holds them to the byte against what autograd really keeps. Korthikanti et al., "Reducing Activation
Recomputation in Large Transformer Models", 2022, section 4, counts the same way for another attention and
with dropout.

Letters in the names of sizes: N rows (batch times length), D width, F the width inside the MLP, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

from course_lib.base.checked import checked
from course_lib.base.checks import at_least
from course_lib.cost.single_device.architectures import TransformerSizes
from course_lib.cost.single_device.layer_shapes import Conv2d, Layer, Linear

__all__ = ["Saved", "activation_bytes", "conv_activations", "transformer_activations"]

_LOSS_BYTES = 4  # cross-entropy keeps the sum of its weights, one float32


@checked
@dataclass(frozen=True)
class Saved:
    """One thing that the forward pass keeps, and its size."""

    name: str
    size_bytes: int

    def __post_init__(self) -> None:
        at_least(0, size_bytes=self.size_bytes)


@checked
def activation_bytes(saved: Iterable[Saved]) -> int:
    """The bytes of all of ``saved`` together."""
    return sum(item.size_bytes for item in saved)


@checked
def transformer_activations(
    config: TransformerSizes,
    *,
    batch_size: int,
    length: int | None = None,
    autocast: bool = False,
    recompute: bool = False,
) -> tuple[Saved, ...]:
    """What a ``Transformer`` and its loss keep for a batch.

    ``autocast`` is bfloat16 autocast: inputs of matmuls are kept as 2-byte copies, and so are the weights,
    while norms, the residual stream and the loss stay float32. With ``recompute`` (activation
    checkpointing) each block keeps its input alone, as it does under ``torch.utils.checkpoint``; during the
    backward pass the inside of one block comes back on top of this. Raises ValueError for a configuration
    with dropout, which this formula does not know.
    """
    if config.dropout:
        raise ValueError(f"dropout is {config.dropout}; this formula knows models without: set it to 0.")
    length = config.context_length if length is None else length
    at_least(1, batch_size=batch_size, length=length)
    n = batch_size * length
    residual = Saved("input", 4 * n * config.width)
    saved = [Saved("stem: positions", 8 * length)]
    for i in range(config.num_layers):
        inside = [residual] if recompute else block_activations(config, batch_size, length, autocast)
        saved += [Saved(f"blocks.{i}: {item.name}", item.size_bytes) for item in inside]
    head = [
        residual,
        Saved("norm statistics", 8 * n),
        *_matmul_inputs("w_vocab", n, config.width, [config.vocab_size], autocast),
        Saved("log-probabilities", 4 * n * config.vocab_size),  # the loss is float32 under autocast too
        Saved("loss", _LOSS_BYTES),
    ]
    return (*saved, *(Saved(f"head: {item.name}", item.size_bytes) for item in head))


def block_activations(config: TransformerSizes, batch_size: int, length: int, autocast: bool) -> list[Saved]:
    """What one transformer block keeps: its input, and everything that its backward pass needs inside."""
    n, d, f, size = batch_size * length, config.width, config.mlp_hidden, 2 if autocast else 4
    queries, keys = config.num_heads * config.head_dim, config.kv_heads * config.head_dim
    return [
        Saved("input", 4 * n * d),
        Saved("norm1 statistics", 8 * n),  # a mean and a spread for each row
        *_matmul_inputs("q, k, v", n, d, [queries, keys, keys], autocast),
        Saved("q, k, v", size * n * (queries + 2 * keys)),
        Saved("attention: output", size * n * queries),  # the input of w_out, in the same storage
        Saved("attention: log-sums", 4 * n * config.num_heads),  # in place of the T x T scores
        *_weight_copies("w_out", queries * d, autocast),
        Saved("input of norm2", 4 * n * d),
        Saved("norm2 statistics", 8 * n),
        *_matmul_inputs("w_up", n, d, [f], autocast),
        Saved("w_up: output", size * n * f),  # the input of GELU
        Saved("GELU: output", size * n * f),  # the input of w_down
        *_weight_copies("w_down", f * d, autocast),
    ]


def _matmul_inputs(name: str, rows: int, width: int, outs: Sequence[int], autocast: bool) -> list[Saved]:
    """The float32 input that the matmuls share; under autocast a 2-byte copy for each of them."""
    if not autocast:
        return [Saved(f"input of {name}", 4 * rows * width)]
    each = "a bfloat16 copy each" if len(outs) > 1 else "a bfloat16 copy"
    copies = Saved(f"input of {name}, {each}", 2 * rows * width * len(outs))
    return [copies, *_weight_copies(name, width * sum(outs), autocast)]


def _weight_copies(name: str, num_weights: int, autocast: bool) -> list[Saved]:
    return [Saved(f"{name}: bfloat16 weights", 2 * num_weights)] if autocast else []


@checked
def conv_activations(
    layers: Sequence[Layer],
    *,
    batch_norm: bool = True,
    autocast: bool = False,
    pooled: bool = False,
    image_size: tuple[int, int] | None = None,
) -> tuple[Saved, ...]:
    """What a ``SmallCNN`` or a ``ResNet`` and its loss keep, from the records of its layers.

    ``layers`` come from ``cnn_layers``, or are written down. Each convolution is followed
    by BatchNorm (which keeps what it read), and each but a block's shortcut by a ReLU (which keeps what it
    wrote: the next layer's input). ``pooled`` is the max-pooling in a ResNet's stem, which remembers where
    each maximum stood. Autocast keeps a 2-byte copy of the images too, and so asks for their ``image_size``
    (height, width).
    """
    size = 2 if autocast else 4
    convolutions = [layer for layer in layers if isinstance(layer, Conv2d)]
    head = layers[-1] if layers else None
    if len(convolutions) != len(layers) - 1 or not isinstance(head, Linear):
        raise ValueError(
            "conv_activations reads convolutions and then one linear layer; "
            "transformers have their own function, transformer_activations."
        )
    if autocast and image_size is None:
        raise ValueError("autocast keeps a copy of the images: give their image_size, such as (8, 8).")
    saved: list[Saved] = []
    for conv in convolutions:
        output = conv.images * conv.out_channels * prod(conv.out_size)
        num_weights = conv.in_channels * conv.out_channels * prod(conv.kernel)
        saved += _weight_copies(conv.name, num_weights, autocast)
        if batch_norm:
            saved.append(Saved(f"{conv.name}: output", size * output))
            saved.append(Saved(f"{conv.name}: norm statistics", 8 * conv.out_channels))
        if ".shortcut." not in conv.name:
            saved.append(Saved(f"{conv.name}: ReLU output", size * output))
    saved += _stem_extras(convolutions[0], image_size if autocast else None, pooled=pooled, size=size)
    return (
        *saved,
        *_weight_copies(head.name, head.in_features * head.out_features, autocast),
        Saved("head: averages", size * head.rows * head.in_features),
        Saved("head: log-probabilities", 4 * head.rows * head.out_features),
        Saved("head: loss", _LOSS_BYTES),
    )


def _stem_extras(stem: Conv2d, copied_image_size: tuple[int, int] | None, *, pooled: bool, size: int) -> list[Saved]:
    extras = []
    if copied_image_size is not None:
        numbers = stem.images * stem.in_channels * prod(copied_image_size)
        extras.append(Saved("images, a bfloat16 copy", 2 * numbers))
    if pooled:
        outputs = stem.images * stem.out_channels * prod((side + 1) // 2 for side in stem.out_size)
        extras.append(Saved("stem: pooled", size * outputs))
        extras.append(Saved("stem: places of the maxima", 8 * outputs))
    return extras
