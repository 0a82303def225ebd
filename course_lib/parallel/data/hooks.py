"""Hooks that know when their owner is gone, and one that keeps it: a wrapper lives until its backward has been."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor
from torch.utils._pytree import tree_leaves

__all__ = ["keep_alive", "while_alive"]


def while_alive(method: Callable[..., None], *args: Any) -> Callable[[Tensor], None]:
    """A hook that calls ``method(*args)``, and does nothing any more when the method's object is gone."""
    alive = weakref.WeakMethod(method)

    def hook(_: Tensor) -> None:
        if (call := alive()) is not None:
            call(*args)

    return hook


def keep_alive(owner: object, output: Any) -> None:
    """Have the graph of what is in ``output`` (nested tuples, lists, dicts) hold ``owner``, until its backward."""
    for tensor in tree_leaves(output):
        if isinstance(tensor, Tensor) and tensor.requires_grad:
            tensor.register_hook(partial(_nothing_to_do, owner))


def _nothing_to_do(_owner: object, _gradient: Tensor) -> None:
    pass
