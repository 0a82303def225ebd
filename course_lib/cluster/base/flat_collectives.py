"""Collectives on one flat tensor, by the name that the installed PyTorch likes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["flat_collective"]


def flat_collective(name: str) -> Callable[..., Any]:
    """ "all_gather" or "reduce_scatter" on whole tensors, by the name that this version of PyTorch likes."""
    import torch.distributed as dist

    older = {"all_gather": "all_gather_into_tensor", "reduce_scatter": "reduce_scatter_tensor"}[name]
    return getattr(dist, f"{name}_single", None) or getattr(dist, older)
