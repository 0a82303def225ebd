"""What can be wrapped, where a wrapper may stand, and what becomes of it when it is copied, nested or saved."""

from __future__ import annotations

import pytest
from ddp_cases import Branches, message_of
from torch import nn
from torch.nn.parallel import DistributedDataParallel as TorchDDP

from course_lib.parallel.data import DistributedDataParallel

pytestmark = pytest.mark.xdist_group("parallel_ddp")


def wrapped_within(me) -> list[str]:
    """A wrapper around a wrapper: within a model, all of the model, PyTorch's own; and on rank 1 alone."""
    said = []
    for make in (
        lambda: nn.Sequential(nn.Linear(3, 3), DistributedDataParallel(me, nn.Linear(3, 3))),
        lambda: DistributedDataParallel(me, Branches()),
        lambda: nn.Sequential(TorchDDP(nn.Linear(3, 3))),
    ):
        model = make()
        said.append(message_of(lambda model=model: DistributedDataParallel(me, model)))
    inner = DistributedDataParallel(me, nn.Linear(3, 3))
    model = nn.Sequential(inner if me.rank == 1 else inner.module)
    said.append(message_of(lambda: DistributedDataParallel(me, model)))
    return said


def test_a_wrapper_within_a_wrapper_is_refused_on_every_rank(two):
    for within, itself, of_torch, on_one in two.call(wrapped_within):
        assert "'1' of this model is a DistributedDataParallel already" in within
        assert "wrap the outer model alone" in within
        assert "this model is a DistributedDataParallel already" in itself
        assert "'0' of this model is a DistributedDataParallel already" in of_torch
        assert on_one.startswith("rank 1: '0' of this model is a DistributedDataParallel")
