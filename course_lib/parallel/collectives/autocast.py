"""Autocast before a collective: factors in the dtype in which their product will be taken."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["as_autocast"]


def as_autocast(tensor: Tensor) -> Tensor:
    """What autocast makes of a factor, made before it: a cast within the product the backward pass would not see."""
    if tensor.dtype == torch.float64:
        return tensor
    kind = tensor.device.type
    if not (torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)):
        return tensor
    return tensor.to(torch.get_autocast_dtype(kind))
