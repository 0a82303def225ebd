"""The share of the peak: the operations of a step, by PyTorch's own count, and where the peak is from."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from course_lib.examples.train_mesh import speed
from course_lib.examples.train_mesh.settings import parse_arguments
from course_lib.examples.train_mesh.speed import flops_per_token, peak_of
from course_lib.examples.train_mesh.start import Rank
from course_lib.examples.train_mesh.transformer import Transformer

ALONE = Rank(0, 1, torch.device("cpu"))


@pytest.mark.parametrize(
    "words", ["--layers 2 --width 8 --heads 2 --context 16", "--layers 1 --width 12 --context 5"]
)
def test_operations_are_those_that_pytorch_counts(words):
    args = parse_arguments(words.split())
    model = Transformer(args.layers, args.width, args.heads, args.context)
    tokens = torch.zeros(3, args.context, dtype=torch.int64)
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()).backward()
    assert counter.get_total_flops() == flops_per_token(args) * tokens.numel()


def test_the_peak_is_the_named_one_or_a_measured_one_of_all_ranks(monkeypatch):
    args = parse_arguments(["--peak-tflops", "2.5"])
    assert str(peak_of(Rank(0, 8, ALONE.device), args)) == "20 TFLOP/s on all ranks, by --peak-tflops"
    monkeypatch.setattr(speed.dist, "barrier", lambda: None)
    monkeypatch.setattr(speed, "of_all", lambda me, rate: [rate, rate, 2 * rate])
    ticks = iter(range(100))
    monkeypatch.setattr(speed.time, "perf_counter", lambda: next(ticks) * 1.0)  # each product takes a second
    peak = peak_of(ALONE, parse_arguments([]))
    assert peak.flops_per_s == 4 * 2 * 512**3
    assert peak.name == "a measured product of matrices"
