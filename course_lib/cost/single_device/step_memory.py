"""The memory of a whole training step, by the ledger's labels: state and activations in one mapping."""

from __future__ import annotations

from course_lib.base.checked import checked
from course_lib.base.checks import at_least
from course_lib.cost.single_device.activations import (
    activation_bytes,
    block_activations,
    transformer_activations,
)
from course_lib.cost.single_device.architectures import TransformerSizes, transformer_parameters
from course_lib.cost.single_device.model_state import precision_state

__all__ = ["STEP_PRECISIONS", "transformer_memory"]

STEP_PRECISIONS = ("float32", "bfloat16 autocast")


@checked
def transformer_memory(
    config: TransformerSizes,
    *,
    batch_size: int,
    length: int | None = None,
    optimizer: str = "adamw",
    precision: str = "float32",
    recompute: bool = False,
) -> dict[str, int]:
    """Bytes by label for training a ``Transformer``: parameter, gradient, optimizer state, activation.

    Each label at its largest moment of a step. Activations are largest when the forward pass ends,
    gradients when the backward pass ends, so a step that drops its gradients in between stays below the
    sum. With ``recompute`` (activation checkpointing) there are two such moments, and the larger counts:
    the end of the forward pass, and the first block of the backward pass, when the head is done with and the
    block's inside is back. Not counted: temporaries, such as the logits and the gradients of activations.
    Raises ValueError for a ``precision`` other than those of ``STEP_PRECISIONS``.
    """
    if precision not in STEP_PRECISIONS:
        raise ValueError(f"precision is {precision!r}; this formula knows {', '.join(STEP_PRECISIONS)}.")
    length = config.context_length if length is None else length
    at_least(1, batch_size=batch_size, length=length)
    autocast = precision == "bfloat16 autocast"
    sizes = transformer_parameters(config)
    state = precision_state(sum(sizes), precision=precision, optimizer=optimizer, num_tensors=len(sizes))
    kept = transformer_activations(config, batch_size=batch_size, length=length, autocast=autocast, recompute=recompute)
    activations = activation_bytes(kept)
    if recompute:
        inside = block_activations(config, batch_size, length, autocast)[1:]  # its input is among the kept
        without_head = [item for item in kept if not item.name.startswith("head")]
        activations = max(activations, activation_bytes([*without_head, *inside]))
    return {
        "parameter": state.parameters,
        "gradient": state.gradients,
        "optimizer state": state.optimizer,
        "activation": activations,
    }
