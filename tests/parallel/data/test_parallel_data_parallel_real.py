"""Data parallelism in one process beside PyTorch's own, which needs GPUs to do anything."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from torch import nn

from course_lib import machine
from course_lib.parallel.data import CopyCounter, DataParallel


def both_on(device_ids):
    """The same step by PyTorch's DataParallel and by ours: outputs, gradients, buffers."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 2)).double().to("cuda:0")
    x = torch.randn(11, 3, dtype=torch.float64, device="cuda:0")
    found = []
    for wrap in (
        lambda m: nn.DataParallel(m, device_ids),
        lambda m: DataParallel(m, [f"cuda:{index}" for index in device_ids]),
    ):
        wrapped = wrap(copy.deepcopy(model))
        y = wrapped(x)
        y.square().sum().backward()
        found.append((y, [p.grad for p in wrapped.parameters()], dict(wrapped.named_buffers())))
    return found


@pytest.mark.gpu
@pytest.mark.skipif(len(machine().devices) < 1, reason="needs a GPU")
def test_on_one_gpu_as_the_real_one():
    theirs, ours = both_on([0])
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.gpu
@pytest.mark.skipif(len(machine().devices) < 1, reason="needs a GPU")
def test_a_wrapped_module_moves_as_any_other():
    wrapped = nn.DataParallel(nn.Linear(2, 2))
    wrapped.to("cuda:0")  # after wrapping: no error, and no fall-back to the CPU
    assert wrapped(torch.ones(4, 2)).device == torch.device("cuda:0")


@pytest.mark.multigpu
@pytest.mark.skipif(len(machine().devices) < 2, reason="needs two GPUs")
def test_on_two_gpus_as_the_real_one():
    theirs, ours = both_on([0, 1])
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


def test_the_real_one_does_nothing_on_a_cpu():
    if machine().devices:
        pytest.skip("this machine has a GPU")
    model = nn.Linear(2, 2)
    real = nn.DataParallel(model)
    assert real.device_ids == []
    with warnings.catch_warnings(), CopyCounter() as copied:
        warnings.simplefilter("error")
        real(torch.ones(4, 2))
    assert copied.num_tensors == 0
