"""Whose buffers a forward of DDP uses: those of rank 0, in training and in evaluation, as under torch."""

from __future__ import annotations

import pytest
import torch
from ddp_cases import wrapped_twice, x_of
from torch import nn

from course_lib.parallel.data import DistributedDataParallel

pytestmark = pytest.mark.xdist_group("parallel_ddp")


def means_of(me, broadcast_buffers: bool) -> dict[str, bool]:
    """Whether this rank's running mean is that of rank 0 after a training step, in eval mode, and so on."""
    ddp = DistributedDataParallel(me, nn.BatchNorm1d(3).double(), broadcast_buffers=broadcast_buffers)
    same = {}

    def look(when: str) -> None:
        everywhere = [None] * me.world_size
        torch.distributed.all_gather_object(everywhere, ddp.module.running_mean.tolist())
        same[when] = everywhere[0] == everywhere[1]

    first = ddp(x_of(me, 0))
    look("after a forward")
    ddp.module.momentum = 0.0  # the next forward shows what was broadcast before it
    second = ddp(x_of(me, 2))
    look("before the next")
    (first + second).sum().backward()  # the broadcast in between has not spoilt the first forward
    ddp.module.momentum = 0.1
    with ddp.no_sync():
        ddp(x_of(me, 3)).sum().backward()
        look("within no_sync")
        with torch.no_grad():
            ddp.eval()(x_of(me, 3))
        look("eval within no_sync")
    with torch.no_grad():
        ddp(x_of(me, 4))
    look("eval")
    return same


def test_buffers_come_from_rank_0_before_a_forward_that_could_use_others(two):
    with_them = two.call(means_of, (True,))
    assert (
        list(with_them)
        == [
            {
                "after a forward": False,
                "before the next": True,
                "within no_sync": False,
                "eval within no_sync": False,
                "eval": True,
            }
        ]
        * 2
    )
    for same in two.call(means_of, (False,)):
        assert not any(same.values())


def evaluated(me) -> tuple[list, list, list]:
    """Eval mode after a step of training, ours and torch's, with and without a graph; and its messages."""
    from course_lib.meter.communication.recorder import Recorder

    ours, theirs = wrapped_twice(me, nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).double())
    outputs = []
    for ddp in (ours, theirs):
        ddp(x_of(me, 0)).square().sum().backward()
        ddp.eval()
        with Recorder(me.rank) as recorder, torch.no_grad():
            outputs.append([ddp(x_of(me, seed)).tolist() for seed in (1, 2)])
        if ddp is ours:
            numbers = [call.operation for call in recorder.calls]
        outputs[-1].append(ddp(x_of(me, 3)).tolist())
    return *outputs, numbers


def test_eval_mode_uses_the_buffers_of_rank_0_as_under_torch(two):
    for ours, theirs, sent in two.call(evaluated):
        assert torch.allclose(torch.tensor(ours), torch.tensor(theirs), atol=1e-12)
        assert sent == ["broadcast"] * 2, "of two dtypes, before the first forward alone"
