"""How much arithmetic a training step is, and what share of a machine's rate it reached.

A FLOP is one floating-point operation; a multiplication and the addition that follows it are two. Only
matrix work is counted, as ``torch.utils.flop_counter`` does: everything else in a step (normalisation,
activation functions, the loss, the optimizer) is limited by memory rather than by arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from course_lib.base.checked import checked
from course_lib.base.checks import at_least, not_negative
from course_lib.cost.single_device.layer_shapes import Attention, Conv2d, Layer, Linear

__all__ = ["Flops", "flops", "hardware_flops", "mfu", "six_n_flops"]


@checked
@dataclass(frozen=True)
class Flops:
    """Operations of a forward pass and of the backward pass that follows it."""

    forward: int
    backward: int

    def __post_init__(self) -> None:
        at_least(0, forward=self.forward, backward=self.backward)

    @property
    def total(self) -> int:
        """Both passes together."""
        return self.forward + self.backward

    def __add__(self, other: Flops) -> Flops:
        return Flops(self.forward + other.forward, self.backward + other.backward)


@checked
def flops(layers: Layer | Iterable[Layer], *, attention_recomputed: bool = False) -> Flops:
    """FLOPs of one training step over ``layers``.

    A backward pass asks each matmul ``y = x w`` for two more of the same size: one for the gradient of
    ``x``, one for that of ``w``; a gradient that nobody needs is not computed. ``attention_recomputed``
    counts what a fused (flash) attention really executes: its backward computes the scores a second time
    instead of keeping them. Leave it off for MFU, which counts the arithmetic that the model asks for and
    not how a kernel obtains it.

    >>> flops(Linear("head", rows=32, in_features=64, out_features=10))
    Flops(forward=40960, backward=81920)
    """
    if isinstance(layers, Linear | Conv2d | Attention):
        layers = (layers,)
    total = Flops(0, 0)
    for layer in layers:
        total += _attention(layer, attention_recomputed) if isinstance(layer, Attention) else _weighted(layer)
    return total


@checked
def hardware_flops(layers: Layer | Iterable[Layer], *, recomputed: Layer | Iterable[Layer] = ()) -> Flops:
    """FLOPs that the machine executes in one training step over ``layers`` when ``recomputed`` are checkpointed.

    Their forward runs once more, in the backward pass. Full recomputation: all layers, eight operations per parameter
    and token where ``six_n_flops`` has six; selective recomputation: the attentions alone. PyTorch leaves out the last
    product of a checkpointed part where nothing after it within the part is needed (``set_checkpoint_early_stop``).
    Divided by time and rate this is the hardware's utilisation, HFU, and never below MFU. Source: Korthikanti et al.,
    "Reducing Activation Recomputation in Large Transformer Models", 2022, section 6.

    >>> head = Linear("head", rows=32, in_features=64, out_features=10)
    >>> hardware_flops(head, recomputed=head)
    Flops(forward=40960, backward=122880)
    """
    return flops(layers) + Flops(0, flops(recomputed).forward)


def _weighted(layer: Linear | Conv2d) -> Flops:
    if isinstance(layer, Linear):
        once = 2 * layer.rows * layer.in_features * layer.out_features
    else:
        # every number of the output is a sum over the kernel's window and all input channels
        outputs = layer.images * layer.out_channels * prod(layer.out_size)
        once = 2 * outputs * layer.in_channels * prod(layer.kernel)
    return Flops(once, once * (layer.input_grad + layer.weight_grad))


def _attention(layer: Attention, recomputed: bool) -> Flops:
    # scores = q k^T and output = p v: two matmuls forward, and two more for each of them backward
    matmul = 2 * layer.batch * layer.heads * layer.query_len * layer.key_len * layer.head_dim
    return Flops(2 * matmul, (5 if recomputed else 4) * matmul)


@checked
def six_n_flops(num_parameters: int, num_tokens: int) -> int:
    """The rule of thumb for a transformer's step: six operations per parameter and token.

    Two forward and four backward for each weight that a token meets; it forgets attention. Source: Kaplan et al.,
    "Scaling Laws for Neural Language Models", 2020, section 2.1. Their number of parameters leaves embedding tables
    out (section 1.3), which do no arithmetic; give all of them, as is often done, and the rule counts those too.
    """
    at_least(0, num_parameters=num_parameters, num_tokens=num_tokens)
    return 6 * num_parameters * num_tokens


@checked
def mfu(num_flops: float, *, step_time_s: float, peak_flops_per_s: float) -> float:
    """Model FLOPs utilisation: the share of the machine's rate that a step turned into the model's own
    arithmetic.

    ``num_flops`` leaves recomputation out, so that a slower way to the same step never looks better. Source:
    Chowdhery et al., "PaLM", 2022, appendix B. Raises ValueError for a time or a rate that is not above zero.
    """
    not_negative(num_flops=num_flops)
    for name, value in (("step_time_s", step_time_s), ("peak_flops_per_s", peak_flops_per_s)):
        if not value > 0:
            raise ValueError(f"{name} is {value}; it must be above zero.")
    return num_flops / step_time_s / peak_flops_per_s
