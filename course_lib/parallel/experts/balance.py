"""Experts kept equally busy: by a loss that the router feels, or by a bias that moves tokens elsewhere.

A router that finds one expert a little better sends it more tokens, so that it learns more and becomes better still.
On one device that wastes experts; with experts on several ranks, all of them wait for the busiest.

The loss counts tokens over *all* ranks. Over one rank's own it would ask that every small part of a batch be balanced,
which keeps experts from specialising: a batch of code alone would have to use them all.

Sources: Fedus et al., "Switch Transformers" (2021), section 2.2, equations 4 to 6; Qiu et al., "Demons in the Detail:
On Implementing Load Balancing Loss" (2025: counts of all ranks); Wang et al., "Auxiliary-Loss-Free Load
Balancing Strategy for Mixture-of-Experts" (2024), algorithm 1.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

from course_lib.base.checks import above_zero
from course_lib.cluster.base.rank import Rank
from course_lib.parallel.collectives.members import Members
from course_lib.parallel.experts.router import Routing, TopKRouter

__all__ = ["count_choices", "load_balancing_loss", "update_selection_bias"]


def count_choices(me: Rank, routing: Routing, *, group: dist.ProcessGroup | None = None) -> Tensor:
    """How many tokens chose each expert, on all ranks of ``group`` together: (E,) int64, by one all-reduce."""
    choices = routing.choices
    if Members.of(me, group).count > 1:
        dist.all_reduce(choices, group=group)
    return choices


def load_balancing_loss(me: Rank, routing: Routing, *, group: dist.ProcessGroup | None = None) -> Tensor:
    """E times the sum, over experts, of the share of choices f and the mean probability P: () in the router's dtype.

    It is 1 where all experts are equally busy, and E where all tokens go to one. f is counted and has no gradient; P
    has. Both are of the tokens of all ranks of ``group``: the *mean over ranks* of what is returned, and of its
    gradients, is that of the whole batch, also where ranks have different numbers of tokens. Add it to the loss,
    times 0.01 or so. Forward: one all-reduce of E numbers. Backward: nothing is sent.
    ``ValueError`` where no rank has any token, seen on the CPU alone.
    """
    members = Members.of(me, group)
    counts = count_choices(me, routing, group=group)  # (E,)
    if counts.is_cpu and not counts.any():
        raise ValueError("there are 0 tokens on every rank; at least one rank needs one to balance experts")
    choices = counts.to(routing.probabilities.dtype)  # whole numbers would be divided in float32
    num_choices = choices.sum()  # N k, on all ranks
    shares = choices / num_choices  # f
    num_tokens = num_choices / routing.experts.size(1)
    probabilities = routing.probabilities.sum(0) * (members.count / num_tokens)  # P, of this rank's tokens
    return routing.num_experts * (shares * probabilities).sum()


@torch.no_grad()
def update_selection_bias(router: TopKRouter, choices: Tensor, *, rate: float = 1e-3) -> None:
    """After a step: a little more bias for experts that had less than the mean, a little less for those with more.

    choices: (E,) from ``count_choices``, added up over the micro-batches of a step, the same on all ranks, so that the
    routers stay equal. ``rate`` is the step, in units of probability. ``ValueError`` for another number of experts.
    """
    above_zero(rate=rate)
    if choices.shape != router.selection_bias.shape:
        raise ValueError(
            f"choices has shape {tuple(choices.shape)}; this router has {len(router.selection_bias)} experts and "
            f"wants ({len(router.selection_bias)},): give what count_choices returns"
        )
    counts = choices.to(router.selection_bias.dtype)
    router.selection_bias += rate * (counts.mean() - counts).sign()
