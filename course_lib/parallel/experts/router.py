"""The router: a score for each expert, and the best k of them for each token.

The scores are computed in float32 at least, whatever the layer computes in: bfloat16 keeps 8 bits, so that experts
with nearly equal scores would change places. It is E numbers a token, and costs next to nothing.

Sources: Shazeer et al., "Outrageously Large Neural Networks: The Sparsely-Gated Mixture-of-Experts Layer" (2017),
section 2.1; Fedus et al., "Switch Transformers" (2021), sections 2.1 and 2.4 (float32 for the router alone); Wang et
al., "Auxiliary-Loss-Free Load Balancing Strategy for Mixture-of-Experts" (2024), section 3 (the bias).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.base.checked import Int64, checked
from course_lib.base.checks import above_zero, at_least
from course_lib.parallel.experts.capacity import expert_capacity, within_capacity

__all__ = ["Routing", "TopKRouter"]


@dataclass(frozen=True)
class Routing:
    """Where each of N tokens goes: k of E experts, the best first."""

    experts: Tensor  # (N, k) int64: the numbers of the experts
    weights: Tensor  # (N, k): what their outputs are multiplied by
    probabilities: Tensor  # (N, E): of all experts
    kept: Tensor  # (N, k) bool: False where the expert had no room left

    @property
    def num_experts(self) -> int:
        return self.probabilities.size(1)

    @property
    def choices(self) -> Tensor:
        """(E,) int64: how many tokens chose each expert, whether it had room or not."""
        return self._count(torch.ones_like(self.experts))

    @property
    def loads(self) -> Tensor:
        """(E,) int64: how many tokens each expert gets."""
        return self._count(self.kept.to(torch.int64))

    @property
    def dropped_share(self) -> Tensor:
        """(): of all choices, the share whose expert had no room."""
        return (~self.kept).float().mean()

    def _count(self, ones: Tensor) -> Tensor:
        # Not torch.bincount, for which the host waits: how long its result is depends on the values.
        zeros = torch.zeros(self.num_experts, dtype=torch.int64, device=ones.device)
        return zeros.scatter_add(0, self.experts.flatten(), ones.flatten())


@checked
class TopKRouter(nn.Module):
    """Tokens in, their experts out: (N, D) -> ``Routing`` of (N, k).

    D width, E ``num_experts``, k ``top_k``. A chosen expert's weight is its softmax probability; with ``normalised``
    the k weights of a token are divided by their sum. ``capacity_factor``: an expert takes that many times the
    tokens that it would get if all were equally busy, and no more; None: it takes all. A ``ValueError`` for more
    choices than experts, and for one normalised choice: its weight would be 1 whatever the router says, so that the
    router would never learn.

    ``selection_bias`` (E,) is added to the probabilities when experts are chosen, and nowhere else: it moves tokens to
    other experts and leaves the weights of their outputs alone. ``update_selection_bias`` sets it.
    """

    selection_bias: Tensor

    def __init__(
        self,
        width: Int64,
        num_experts: Int64,
        *,
        top_k: Int64 = 2,
        normalised: bool = False,
        capacity_factor: float | None = None,
    ) -> None:
        super().__init__()
        at_least(1, width=width, num_experts=num_experts, top_k=top_k)
        if top_k > num_experts:
            raise ValueError(
                f"top_k={top_k} experts cannot be chosen from num_experts={num_experts}: each is chosen once at most. "
                f"The nearest that works is {num_experts}."
            )
        if normalised and top_k == 1:
            raise ValueError(
                "normalised=True with top_k=1 makes every weight 1, so the router never gets a gradient. Use "
                "normalised=False, or top_k=2."
            )
        if capacity_factor is not None:
            above_zero(capacity_factor=capacity_factor)
        self.top_k, self.normalised, self.capacity_factor = top_k, normalised, capacity_factor
        self.weight = nn.Parameter(torch.empty(num_experts, width))
        nn.init.normal_(self.weight, std=0.02)
        self.register_buffer("selection_bias", torch.zeros(num_experts))

    def forward(self, x: Tensor) -> Routing:
        """(N, D) -> Routing. The arithmetic is in float32, or in float64 where ``x`` is."""
        probabilities = self._scores(x, lambda logits: logits.softmax(-1))  # (N, E)
        experts = (probabilities.detach() + self.selection_bias).topk(self.top_k, -1).indices  # (N, k)
        weights = probabilities.gather(1, experts)
        if self.normalised:
            weights = weights / weights.sum(-1, keepdim=True)
        return Routing(experts, weights, probabilities, self._mask_over_capacity(experts))

    def _scores(self, x: Tensor, squash: Callable[[Tensor], Tensor]) -> Tensor:
        """What ``squash`` makes of the logits of all tokens (N, D) -> (N, E)."""
        width = self.weight.size(1)
        if x.dim() != 2 or x.size(1) != width:
            raise ValueError(
                f"x has shape {tuple(x.shape)}; this router reads tokens of width {width}: give it (tokens, {width})"
            )
        dtype = torch.promote_types(x.dtype, torch.float32)
        with _without_autocast(x.device):
            return squash(F.linear(x.to(dtype), self.weight.to(dtype)))

    def _mask_over_capacity(self, experts: Tensor) -> Tensor:
        if self.capacity_factor is None:
            return torch.ones_like(experts, dtype=torch.bool)
        num_tokens, num_experts = len(experts), len(self.weight)
        capacity = expert_capacity(
            num_tokens, num_experts=num_experts, top_k=self.top_k, capacity_factor=self.capacity_factor
        )
        return within_capacity(experts, num_experts=num_experts, capacity=capacity)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        """``.bfloat16()`` and the like leave the bias in float32: its steps are too small for 8 bits."""
        before = self.selection_bias
        super()._apply(fn, recurse)
        if self.selection_bias.dtype.itemsize < before.dtype.itemsize:
            self.selection_bias = before.to(self.selection_bias.device, torch.float32)
        return self

    def extra_repr(self) -> str:
        num_experts, width = self.weight.shape
        room = "" if self.capacity_factor is None else f", capacity_factor={self.capacity_factor:g}"
        return f"{width} -> {self.top_k} of {num_experts}{room}"


def _without_autocast(device: torch.device) -> contextlib.AbstractContextManager[Any]:
    kind = device.type
    if not (torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)):
        return contextlib.nullcontext()
    return torch.autocast(kind, enabled=False)
