"""The share of the peak: the operations of a step, by PyTorch's own count, and where the peak is from."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from course_lib.examples.train_mesh import speed
from course_lib.examples.train_mesh.settings import parse_arguments
from course_lib.examples.train_mesh.speed import flops_per_token, peak_of
from course_lib.examples.train_mesh.start import Rank
from course_lib.examples.train_mesh.transformer import Transformer

ALONE = Rank(0, 1, torch.device("cpu"))


@pytest.mark.parametrize("words", ["--layers 2 --width 8 --heads 2 --context 16", "--layers 1 --width 12 --context 5"])
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


def test_on_a_gpu_the_matrices_do_not_count_in_the_memory_of_the_run(monkeypatch):
    done = []
    monkeypatch.setattr(speed, "_measured_flops_per_s", lambda me, precision: done.append("measured") or 1.0)
    monkeypatch.setattr(speed, "of_all", lambda me, rate: [rate])
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: done.append("freed"))
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: done.append("mark taken back"))
    peak_of(Rank(0, 1, torch.device("cuda", 0)), parse_arguments([]))
    assert done == ["measured", "freed", "mark taken back"]
    peak_of(ALONE, parse_arguments([]))
    assert done[3:] == ["measured"], "without a GPU there is none"


@pytest.mark.parametrize(("precision", "most_mib"), [("float32", 768), ("bf16", 384), ("float64", 384)])
def test_the_matrices_take_little_of_a_gpu(monkeypatch, precision, most_mib):
    made, ticks = [], iter(range(100))
    plain = torch.ones

    def ones(*args, **kwargs):
        made.append(plain(*args, **kwargs))
        return made[-1]

    monkeypatch.setattr(speed.torch, "ones", ones)
    monkeypatch.setattr(speed.dist, "barrier", lambda: None)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    monkeypatch.setattr(speed.time, "perf_counter", lambda: next(ticks) * 1.0)
    with FakeTensorMode():
        rate = speed._measured_flops_per_s(Rank(0, 1, torch.device("cuda", 0)), precision)
    assert sum(tensor.nbytes for tensor in made) <= most_mib * 2**20
    assert rate == 2 * made[0].shape[0] ** 3
