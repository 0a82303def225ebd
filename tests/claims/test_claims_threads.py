"""Trials of ``nn.DataParallel`` that need GPUs, with the CPU in their place."""

from __future__ import annotations

import torch

from course_lib import claims
from course_lib.claims.data_parallel import threads


def test_peaks_are_reset_when_something_is_on_the_gpus(monkeypatch):
    """With the CPU in place of two GPUs, whose allocator knows no device before the first tensor, as PyTorch's."""
    moved = []

    def reset(gpu):
        if not moved:
            raise RuntimeError(f"Invalid device argument {gpu}: did you call init?")

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", reset)
    for name in ("memory_allocated", "max_memory_allocated"):
        monkeypatch.setattr(torch.cuda, name, lambda gpu: 2 - gpu)
    monkeypatch.setattr(torch.nn.Module, "cuda", lambda self: moved.append(self) or self)
    monkeypatch.setattr(torch.Tensor, "cuda", lambda self: self)
    small = threads.mlp
    monkeypatch.setattr(threads, "mlp", lambda width: small())
    assert claims.trial("D6").function(lambda size: None).verdict == "holds"
