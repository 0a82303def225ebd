"""A router whose scores are sigmoids, each for itself, and that may keep a token to a few nodes.

A softmax makes all scores compete: what one expert wins the others lose. A sigmoid is between 0 and 1 whatever the
others are, which suits a choice of many out of very many. The scores of the chosen are divided by their sum.

Source: DeepSeek-AI, "DeepSeek-V3 Technical Report" (2024), section 2.1.2, equations 12 to 16, and 18 for the
probabilities that its balance loss takes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib.base.checked import Int64, checked
from course_lib.base.checks import at_least
from course_lib.parallel.experts.once.node_limited import node_limited_choice
from course_lib.parallel.experts.router import Routing, TopKRouter

__all__ = ["SigmoidRouter"]


@checked
class SigmoidRouter(TopKRouter):
    """Tokens in, their experts out: (N, D) -> ``Routing`` of (N, k), in place of a ``TopKRouter``; nothing is dropped.

    ``max_nodes`` of ``num_nodes``: a token's experts lie on that many nodes at most (``node_limited_choice``); None:
    no limit. ``selection_bias`` counts for the choice of nodes and of experts, and not for the weights.
    ``ValueError`` as for ``TopKRouter``, and as for ``node_limited_choice``.
    """

    def __init__(
        self,
        width: Int64,
        num_experts: Int64,
        *,
        top_k: Int64 = 8,
        num_nodes: Int64 = 1,
        max_nodes: Int64 | None = None,
    ) -> None:
        super().__init__(width, num_experts, top_k=top_k, normalised=True)
        at_least(1, num_nodes=num_nodes)
        self.num_nodes, self.max_nodes = num_nodes, num_nodes if max_nodes is None else max_nodes
        self._choice(torch.zeros(0, num_experts))  # what cannot be chosen is said here

    def forward(self, x: Tensor) -> Routing:
        """(N, D) -> Routing. The arithmetic is in float32, or in float64 where ``x`` is."""
        scores = self._scores(x, torch.sigmoid)  # (N, E)
        experts = self._choice(scores.detach() + self.selection_bias)
        weights = scores.gather(1, experts)
        kept = torch.ones_like(experts, dtype=torch.bool)
        return Routing(experts, weights / weights.sum(-1, keepdim=True), scores / scores.sum(-1, keepdim=True), kept)

    def _choice(self, scores: Tensor) -> Tensor:
        return node_limited_choice(scores, top_k=self.top_k, num_nodes=self.num_nodes, max_nodes=self.max_nodes)
