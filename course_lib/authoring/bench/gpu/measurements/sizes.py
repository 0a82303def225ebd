"""The transformers that the steps train: of lesson 01's class, wide enough for a GPU, or small enough for a trial."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from course_lib.models import TransformerConfig

__all__ = ["BATCH_SIZE", "middle", "widest"]

BATCH_SIZE = 8


def middle(on_gpu: bool) -> TransformerConfig:
    """100 million parameters, which a step leaves within seconds in any precision; for a trial, 0.2 million."""
    from course_lib.models import TransformerConfig

    if on_gpu:
        return TransformerConfig(context_length=512, num_layers=8, width=1024, num_heads=16)
    return TransformerConfig(context_length=64, num_layers=4, width=64, num_heads=4)


def widest(on_gpu: bool) -> TransformerConfig:
    """800 million parameters and large products, to keep a GPU's arithmetic busy; for a trial, lesson 01's own."""
    from course_lib.models import TransformerConfig

    if on_gpu:
        return TransformerConfig(context_length=2048, num_layers=4, width=4096, num_heads=32)
    return middle(False)
