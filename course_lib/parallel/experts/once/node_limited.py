"""Node-limited routing: a token's experts are chosen on a few nodes, so that its row goes to few of them.

Experts lie on the nodes in their order, equally many on each. A node counts as much as its best experts do together;
the best nodes are chosen first, and the k experts among those that lie there.

Source: DeepSeek-AI, "DeepSeek-V3 Technical Report" (2024), section 2.1.2, "Node-Limited Routing": 8 experts for each
token, on at most 4 nodes, and a node counts as much as its best 8/4 experts.
"""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib.base.checked import checked
from course_lib.base.checks import at_least, divides

__all__ = ["node_limited_choice"]


@checked
def node_limited_choice(scores: Tensor, *, top_k: int, num_nodes: int, max_nodes: int) -> Tensor:
    """(N, E) scores of finite numbers -> (N, k) int64: the experts of each token, the best first, on ``max_nodes``.

    A node is worth the sum of its ceil(k / max_nodes) best scores. Of equals the lower number is taken, of nodes and
    of experts, so that all ranks and all runs choose alike. ``max_nodes`` as large as ``num_nodes``: no limit.
    ``ValueError`` where nodes have unequally many experts, and where ``max_nodes`` nodes have fewer than k.
    """
    num_experts = scores.size(1)
    at_least(1, top_k=top_k, num_nodes=num_nodes, max_nodes=max_nodes)
    divides(num_experts, "experts", num_nodes=num_nodes)
    per_node, max_nodes = num_experts // num_nodes, min(max_nodes, num_nodes)
    if top_k > max_nodes * per_node:
        raise ValueError(
            f"top_k={top_k} experts do not lie on max_nodes={max_nodes} nodes with {per_node} experts each; the "
            f"nearest that works is top_k={max_nodes * per_node}"
        )
    if max_nodes < num_nodes:
        counted = min(per_node, -(-top_k // max_nodes))
        of_nodes = scores.unflatten(1, (num_nodes, per_node))  # (N, nodes, E / nodes)
        worth = of_nodes.topk(counted, -1).values.sum(-1)  # (N, nodes)
        is_near = torch.zeros_like(worth, dtype=torch.bool).scatter(1, _best(worth, max_nodes), True)
        scores = of_nodes.masked_fill(~is_near.unsqueeze(-1), -torch.inf).flatten(1)
    return _best(scores, top_k)


def _best(values: Tensor, count: int) -> Tensor:
    """The places of the largest values of each row; ``topk`` does not say which of equals it takes."""
    return values.argsort(dim=1, descending=True, stable=True)[:, :count]
