"""The trial of what a loss that is summed over the batch, and not averaged, does to DDP's gradients."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from course_lib.claims.court.evidence import Evidence, Ranks, tries
from course_lib.claims.court.workloads import ROUNDING, batch, distance, distance_text, gradients, mlp
from course_lib.cluster.base.rank import Rank
from course_lib.rounding import rounded

__all__: list[str] = []


def _gradient(me: Rank, num_samples: int, reduction: str) -> torch.Tensor:
    """The gradient that DDP leaves on this rank for its share of the batch, flat."""
    model = DistributedDataParallel(mlp())
    inputs, classes = (part.tensor_split(me.world_size)[me.rank] for part in batch(num_samples))
    nn.functional.cross_entropy(model(inputs), classes, reduction=reduction).backward()
    return gradients(model)


def _in_one_process(num_samples: int, reduction: str) -> torch.Tensor:
    """The gradient of the whole batch without DDP, flat."""
    model = mlp()
    inputs, classes = batch(num_samples)
    nn.functional.cross_entropy(model(inputs), classes, reduction=reduction).backward()
    return gradients(model)


@tries("C15")
def a_summed_loss_makes_gradients_smaller_under_ddp(ranks: Ranks) -> Evidence:
    """A summed loss on 2 and 4 ranks, in equal and unequal shares, and a mean as control: gradients smaller by what?"""
    facts, away = {}, []
    for num_ranks, num_samples in ((2, 64), (4, 64), (4, 66)):
        whole = _in_one_process(num_samples, "sum")
        by_ranks = ranks(num_ranks).run(_gradient, num_samples, "sum")[0]
        facts[f"sum, {num_samples} samples on {num_ranks} ranks: times smaller"] = _ratio(whole, by_ranks)
        away.append(distance(num_ranks * by_ranks, whole))
    mean = _in_one_process(64, "mean"), ranks(4).run(_gradient, 64, "mean")[0]
    facts["mean, 64 samples on 4 ranks: times smaller"] = _ratio(*mean)
    facts["sum, times the number of ranks: from one process"] = distance_text(max(away))
    as_said = [one < ROUNDING for one in away]
    return Evidence(
        "holds" if all(as_said) else "holds with conditions" if any(as_said) else "false",
        facts,
        because="DDP adds the ranks' gradients and divides by the number of ranks. That is right if each rank's loss "
        "is a mean and all shares are equal. A sum needs no division, whatever the shares' sizes",
        turns_if="DDP added gradients without dividing, or the loop multiplied the loss by the number of ranks: then "
        "the gradients are those of one process",
    )


def _ratio(one: torch.Tensor, other: torch.Tensor) -> str:
    """How many times longer one gradient is than the other."""
    return rounded(one.norm() / other.norm(), 2)
