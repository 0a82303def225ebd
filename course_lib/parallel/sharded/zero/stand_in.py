"""What stands in ``parameter.grad`` at stage 2, when the numbers have gone to the ranks that keep them.

It has the gradient's shape and the memory of one number, nan. To read it gives nan, which nobody overlooks. A write to
it or with it, and a norm, are meant for the mean gradient: the error says where that is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

__all__ = ["NO_SCALER", "GradientStandIn"]

NO_SCALER = (
    "a GradScaler looks for infinities in its own rank's gradients, so it would skip steps that other ranks take. "
    "Train in bfloat16, which needs no scaler."
)
_NORMS = ("norm", "linalg_norm", "linalg_vector_norm", "vector_norm", "_foreach_norm")
_HARMLESS = ("requires_grad_", "detach_")


class GradientStandIn(Tensor):
    """nan in the shape of a gradient that this rank no longer has. ``RuntimeError`` for a norm and for writes."""

    @classmethod
    def like(cls, parameter: Tensor, nan: Tensor) -> Tensor:
        """Of the shape of ``parameter``, in the memory of ``nan``, (). A nan of a class of its own keeps its class."""
        spread = nan.expand(parameter.shape)
        return spread.as_subclass(cls) if type(spread) is Tensor else spread

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        name = getattr(func, "__name__", "")
        writes = name.endswith("_") and not name.endswith("__") and name not in _HARMLESS
        if "_amp_" in name:
            raise RuntimeError(NO_SCALER)
        if writes or name in _NORMS:
            raise RuntimeError(
                f"{name} got a stand-in for a gradient. At stage=2 the gradient itself is sharded, and each rank "
                "keeps the mean of its own rows. To clip, or for the norm, call optimizer.clip_grad_norm(max_norm). "
                "To scale, multiply the loss. To step or to start again, call optimizer.step() or "
                "optimizer.zero_grad() of the ShardedOptimizer."
            )
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    def __deepcopy__(self, _memo: Any) -> Tensor:
        return self.as_subclass(Tensor).clone()

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Elsewhere it stands for nothing: a tensor of nan."""
        return self.as_subclass(Tensor).clone().__reduce_ex__(protocol)
