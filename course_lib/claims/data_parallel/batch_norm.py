"""The trial of what is said about small batches on each device: what BatchNorm makes of them."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from course_lib.claims.court.evidence import Evidence, Ranks, tries
from course_lib.claims.court.workloads import batch, distance, distance_text, gradients, mlp
from course_lib.cluster.base.rank import Rank
from course_lib.parallel.data import SyncBatchNorm

__all__: list[str] = []

_ROUNDING = 1e-10  # a division by a standard deviation makes it larger
_NUM_SAMPLES = 8  # of the whole batch: two on each of four ranks


def _gradient(me: Rank, batch_norm: bool, sync: bool) -> torch.Tensor:
    """The averaged gradient, with this rank's share of the batch."""
    model: nn.Module = mlp(batch_norm=batch_norm)
    if sync:
        model = SyncBatchNorm.convert(me, model)
    inputs, classes = (part.tensor_split(me.world_size)[me.rank] for part in batch(_NUM_SAMPLES))
    wrapped = DistributedDataParallel(model)
    nn.functional.cross_entropy(wrapped(inputs), classes).backward()
    return gradients(wrapped)


def _whole(batch_norm: bool) -> torch.Tensor:
    model = mlp(batch_norm=batch_norm)
    inputs, classes = batch(_NUM_SAMPLES)
    nn.functional.cross_entropy(model(inputs), classes).backward()
    return gradients(model)


@tries("C10")
def a_small_batch_per_device_harms(ranks: Ranks) -> Evidence:
    """Two samples on each of four ranks: how far is the gradient from that of the eight together?"""
    away = {}
    for name, batch_norm, sync in (
        ("no BatchNorm", False, False),
        ("BatchNorm", True, False),
        ("synchronised BatchNorm", True, True),
    ):
        away[name] = distance(ranks(4).run(_gradient, batch_norm, sync)[0], _whole(batch_norm))
    harmless, harmed = max(away["no BatchNorm"], away["synchronised BatchNorm"]), away["BatchNorm"]
    return Evidence(
        ("holds with conditions" if harmless < _ROUNDING else "holds") if harmed > 1e-3 else "false",
        {name: distance_text(value, rounding=_ROUNDING) for name, value in away.items()},
        because="without BatchNorm the ranks' shares give the same gradient as the whole batch. With BatchNorm each "
        "rank takes its statistics from two samples. Synchronised statistics mend that",
        turns_if="no layer used statistics of its batch (then it is false), or synchronised statistics did not mend it "
        "(then it holds)",
    )
