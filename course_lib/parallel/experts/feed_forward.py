"""The experts: MLPs of one shape, with their weights behind each other in one tensor each.

Source: Shazeer et al. (2017), section 2. In production the loop over experts is one grouped matrix product
(``torch.nn.functional.grouped_mm``; MegaBlocks, Gale et al., 2022).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.base.checked import Int64, checked
from course_lib.base.checks import at_least

__all__ = ["Experts"]


@checked
class Experts(nn.Module):
    """E MLPs without biases: rows sorted by expert (R, D) -> (R, D).

    E experts, D width, H hidden. Expert e is ``w_up[e]`` (H, D), GELU, ``w_down[e]`` (D, H).
    """

    def __init__(self, width: Int64, *, hidden: Int64, num_experts: Int64) -> None:
        super().__init__()
        at_least(1, width=width, hidden=hidden, num_experts=num_experts)
        self.w_up = nn.Parameter(torch.empty(num_experts, hidden, width))
        self.w_down = nn.Parameter(torch.empty(num_experts, width, hidden))
        nn.init.normal_(self.w_up, std=width**-0.5)
        nn.init.normal_(self.w_down, std=hidden**-0.5)

    def forward(self, rows: Tensor, counts: Sequence[int]) -> Tensor:
        """(R, D) -> (R, D): the first ``counts[0]`` rows are those of expert 0, and so on."""
        if len(counts) != len(self.w_up) or sum(counts) != len(rows):
            raise ValueError(
                f"counts={list(counts)} do not fit: {len(self.w_up)} experts need a number of rows each, which add up "
                f"to the {len(rows)} rows"
            )
        # An expert without rows computes on none, so that its gradient is zeros and not None on some ranks.
        outputs = [
            F.linear(F.gelu(F.linear(own, w_up)), w_down)
            for own, w_up, w_down in zip(rows.split(list(counts)), self.w_up, self.w_down, strict=True)
        ]
        return torch.cat(outputs)

    def extra_repr(self) -> str:
        num_experts, hidden, width = self.w_up.shape
        return f"{num_experts} experts, {width} -> {hidden} -> {width}"
