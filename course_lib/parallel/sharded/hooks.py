"""Hooks around the forward of modules: unshard before it, reshard after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from course_lib.parallel.sharded.unit import Unit

__all__ = ["call_around_forward"]


def call_around_forward(
    unit: Unit,
    before: Callable[[Unit], None],
    after: Callable[[Unit, Any, Any], None],
    dtype: torch.dtype | None,
) -> None:
    """Have each module of ``unit`` call ``before(unit)`` and ``after(unit, inputs, output)``, and cast its inputs.

    ``torch.compile`` may be at the modules, before or after this: it computes around these calls and does not look
    into them, since no graph can hold a message.
    """

    @torch.compiler.disable
    def pre_hook(_module: nn.Module, args: Any, kwargs: Any) -> tuple[Any, Any]:
        before(unit)
        return _cast(args, dtype), _cast(kwargs, dtype)

    @torch.compiler.disable
    def hook(_module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        after(unit, (args, kwargs), output)

    for module in unit.modules:
        module.register_forward_pre_hook(pre_hook, with_kwargs=True)
        module.register_forward_hook(hook, with_kwargs=True)


def _cast(value: Any, dtype: torch.dtype | None) -> Any:
    if dtype is None:
        return value
    return tree_map_only(Tensor, lambda t: t.to(dtype) if t.is_floating_point() else t, value)
