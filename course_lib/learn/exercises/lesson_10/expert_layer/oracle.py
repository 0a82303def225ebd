"""10.experts: what one process gives: every expert computes every token, and most of it counts nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.learn.exercises.lesson_10.expert_layer.cases import (
    PUSH,
    SITUATIONS,
    ExpertsSituation,
    layer_weights,
    tokens_of,
)

__all__ = ["WholeLayer", "all_outputs", "chosen_experts", "mixed", "oracle", "with_room"]


@dataclass(frozen=True)
class WholeLayer:
    """A call of a layer: of each place its output (N, D), its gradients of x and of the router, its choices (N, k),
    which of them have room, and what its tokens alone do to the gradients of all experts, (E, D, D) twice.
    ``unbalanced``: the router's gradient without what comes by the load-balancing loss.
    """

    outputs: list[Tensor]
    of_x: list[Tensor]
    of_router: list[Tensor]
    unbalanced: list[Tensor]
    of_experts: list[tuple[Tensor, Tensor]]
    chosen: list[Tensor]
    kept: list[Tensor]
    balance: float


def chosen_experts(x: Tensor, router: Tensor, top_k: int) -> tuple[Tensor, Tensor]:
    """(N, D), (E, D) -> probabilities of all experts (N, E), and the best k of each token, the best first (N, k)."""
    probabilities = F.linear(x, router).softmax(-1)
    return probabilities, probabilities.topk(top_k, -1).indices


def with_room(one: ExpertsSituation, chosen: Tensor, num_experts: int) -> Tensor:
    """Which choices have room, (N, k): all first choices before all second ones, and tokens in their order."""
    kept = torch.ones_like(chosen, dtype=torch.bool)
    if one.capacity_factor is None:
        return kept
    room = math.ceil(one.capacity_factor * chosen.numel() / num_experts)
    left = [room] * num_experts
    for choice in range(chosen.size(1)):
        for token in range(len(chosen)):
            expert = int(chosen[token, choice])
            kept[token, choice] = left[expert] > 0
            left[expert] -= 1
    return kept


def all_outputs(x: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """What every expert makes of every token: (N, E, D)."""
    hidden = F.gelu(torch.einsum("nd,ehd->neh", x, up))
    return torch.einsum("neh,edh->ned", hidden, down)


def mixed(x: Tensor, weights: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """The sum of all experts' outputs (N, D), each times its weight (N, E), which is 0 for most."""
    return (all_outputs(x, up, down) * weights.unsqueeze(-1)).sum(1)


@dataclass
class _Place:
    """What one place has: leaves, and what came of its tokens."""

    leaves: tuple[Tensor, Tensor, Tensor, Tensor]  # x, router, up, down
    grad: Tensor
    probabilities: Tensor
    chosen: Tensor
    kept: Tensor
    out: Tensor


def _place(one: ExpertsSituation, tokens: tuple[Tensor, Tensor], weights: Sequence[Tensor], top_k: int) -> _Place:
    x, grad = (part.double().flatten(0, -2) for part in tokens)
    x, router, up, down = (part.double().clone().requires_grad_() for part in (x, *weights))
    likely, best = chosen_experts(x, router, top_k)
    has_room = with_room(one, best, len(router))
    mix = torch.zeros_like(likely).scatter(1, best, likely.gather(1, best) * has_room)
    return _Place((x, router, up, down), grad, likely, best, has_room, mixed(x, mix, up, down))


@lru_cache(maxsize=256)
def oracle(label: str, count: int, number: int, turn: int) -> WholeLayer:
    """In float64, from the numbers as they were given."""
    one = SITUATIONS[label]
    weights, top_k = layer_weights(label, count, number), one.chosen(count)
    places = [_place(one, tokens, weights, top_k) for tokens in tokens_of(label, count, number, turn)]
    text_loss = torch.stack([(place.out * place.grad).sum() for place in places]).sum()
    balance = _balance([place.probabilities for place in places], [place.chosen for place in places])
    # The mean over ranks of what is returned is the whole batch's, so each rank's gradient is that many times its part.
    loss = text_loss + PUSH * count * balance * one.balances
    grads = [_gradients(loss, place.leaves) for place in places]
    plain = [_gradients(text_loss, (place.leaves[1],))[0] for place in places]
    return WholeLayer(
        [place.out.detach() for place in places],
        [found[0] for found in grads],
        [found[1] for found in grads],
        plain,
        [(found[2], found[3]) for found in grads],
        [place.chosen for place in places],
        [place.kept for place in places],
        balance.item(),
    )


def _gradients(loss: Tensor, leaves: Sequence[Tensor]) -> tuple[Tensor, ...]:
    return torch.autograd.grad(loss, leaves, retain_graph=True, allow_unused=True, materialize_grads=True)


def _balance(probabilities: Sequence[Tensor], chosen: Sequence[Tensor]) -> Tensor:
    """E times the sum of f P: the share of choices, and the mean probability, of the tokens of all ranks."""
    num_experts = probabilities[0].size(1)
    choices = torch.cat([best.flatten() for best in chosen]).bincount(minlength=num_experts)
    shares = choices.double() / choices.sum()
    return num_experts * (shares * torch.cat(list(probabilities)).mean(0)).sum()
