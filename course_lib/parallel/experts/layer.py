"""A mixture of experts on one device: what the parallel one has to equal.

y(x) = sum, over the k experts e that the router chooses for x, of weight(x, e) MLP_e(x). The parameters of E experts,
and the arithmetic of k.

Source: Shazeer et al., "Outrageously Large Neural Networks" (2017), section 2, equation 1.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from course_lib.base.checked import Int64, checked
from course_lib.parallel.experts.feed_forward import Experts
from course_lib.parallel.experts.router import Routing, TopKRouter

__all__ = ["MixtureOfExperts", "combine", "sorted_by_expert"]


@checked
class MixtureOfExperts(nn.Module):
    """An MLP of which each token uses ``top_k`` of ``num_experts``: (..., D) -> (..., D), in place of an ``Mlp``.

    ``routing`` is that of the last forward, for ``load_balancing_loss`` and for counting; a copy of the layer has
    none. The other settings are those of ``TopKRouter``.
    """

    routing: Routing | None

    def __init__(
        self,
        width: Int64,
        *,
        hidden: Int64,
        num_experts: Int64,
        top_k: Int64 = 2,
        normalised: bool = False,
        capacity_factor: float | None = None,
    ) -> None:
        super().__init__()
        self.router = TopKRouter(
            width, num_experts, top_k=top_k, normalised=normalised, capacity_factor=capacity_factor
        )
        self.experts = Experts(width, hidden=hidden, num_experts=num_experts)
        self.routing = None

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., D)."""
        tokens = x.reshape(-1, x.size(-1))  # (N, D)
        routing = self.routing = self.router(tokens)
        counts = routing.loads.tolist()  # a device's host waits here: it has to know how to cut
        order = sorted_by_expert(routing)[: sum(counts)]
        rows = self.experts(tokens[order // self.router.top_k], counts)  # (sum of counts, D)
        return combine(rows, order, routing).view_as(x)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "routing": None}  # its tensors have a history, which cannot be copied


def sorted_by_expert(routing: Routing) -> Tensor:
    """The choices of all tokens, expert after expert, those without room at the end: (N k,) int64.

    Choice c of token t has the number t k + c. Within an expert, tokens keep their order.
    """
    experts = routing.experts.masked_fill(~routing.kept, routing.num_experts)
    return experts.flatten().argsort(stable=True)


def combine(rows: Tensor, order: Tensor, routing: Routing) -> Tensor:
    """Each token's outputs, times their weights, added up: rows (R, D) in the order of ``order`` (R,) -> (N, D).

    Each row goes to a place of its own and then the k of a token are added: always in the same order, which a
    GPU does not promise of ``index_add_``.
    """
    num_tokens, top_k = routing.experts.shape
    slots = rows.new_zeros(num_tokens * top_k, rows.size(1)).index_put((order,), rows)
    weights = routing.weights.to(rows.dtype).unsqueeze(-1)  # (N, k, 1)
    return (slots.view(num_tokens, top_k, rows.size(1)) * weights).sum(1)
