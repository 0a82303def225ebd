"""Replicas in threads: together, with the modes of their caller, and with names when they fail."""

from __future__ import annotations

import threading

import pytest
import torch
from torch import nn

from course_lib.parallel.data import DataParallel

CPUS = ["cpu"] * 4


def test_threads_really_run_at_the_same_time():
    class Meet(nn.Module):
        meeting = threading.Barrier(4, timeout=20)

        def forward(self, x):
            self.meeting.wait()
            return x

    assert DataParallel(Meet(), CPUS)(torch.arange(8)).tolist() == list(range(8))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_modes_of_the_caller_reach_the_threads(mode):
    class Seen(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.norm = nn.Linear(2, 2), nn.BatchNorm1d(2)

        def forward(self, x):
            y = self.norm(self.layer(x))
            return y, torch.tensor([[torch.is_grad_enabled(), torch.is_inference_mode_enabled()]])

    with mode():
        y, seen = DataParallel(Seen(), ["cpu"] * 2)(torch.arange(8.0).view(4, 2))
        assert seen.tolist() == 2 * [[torch.is_grad_enabled(), torch.is_inference_mode_enabled()]]
    assert y.requires_grad == (mode is torch.enable_grad)


def test_autocast_reaches_the_threads_with_its_dtype():
    wrapped = DataParallel(nn.Linear(2, 2), ["cpu"] * 2)
    dtypes = []
    for dtype in (torch.bfloat16, torch.float16):
        with torch.autocast("cpu", dtype):
            dtypes.append(wrapped(torch.ones(4, 2)).dtype)
    assert [*dtypes, wrapped(torch.ones(4, 2)).dtype] == [torch.bfloat16, torch.float16, torch.float32]


class Fails(nn.Module):
    def forward(self, x):
        if x[0] >= 4:
            raise KeyError("no such row")
        return x


def test_an_exception_names_the_first_replica_that_failed():
    with pytest.raises(RuntimeError, match=r"replica 2 of 4, on cpu, failed: KeyError: 'no such row'") as caught:
        DataParallel(Fails(), CPUS)(torch.arange(8))
    assert isinstance(caught.value.__cause__, KeyError)
