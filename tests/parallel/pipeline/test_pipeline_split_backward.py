"""A backward in two halves is the whole one: for whatever a stage is made of, and its memory is freed by the second."""

from __future__ import annotations

import copy
import weakref

import pytest
import torch
import torch.nn.functional as F
from planted import Fails
from torch import nn

from course_lib.models import TransformerBlock, TransformerConfig
from course_lib.parallel.pipeline import StageFailed
from course_lib.parallel.pipeline.split_backward import backward_for_inputs
from course_lib.parallel.pipeline.stage_run import StageRun
from course_lib.schedules import Action


class Same(nn.Module):
    """One weight in several places: twice in a row, beside itself, and through a transpose."""

    def __init__(self):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(6, 6)), nn.Parameter(torch.randn(6))

    def forward(self, x):
        x = torch.tanh(F.linear(x, self.weight, self.bias))
        x = F.linear(x, self.weight) + F.linear(x, self.weight.T)
        return x * self.bias


class Residual(nn.Module):
    """Branches that meet again, an operation with several outputs, and weights of which one is not used."""

    def __init__(self):
        super().__init__()
        self.wide, self.back, self.idle = nn.Linear(6, 12), nn.Linear(6, 6), nn.Linear(6, 6)
        self.scale = nn.Parameter(torch.ones(6))

    def forward(self, x):
        left, right = self.wide(x).chunk(2, dim=-1)
        return x + self.back(torch.sigmoid(left) * right) * (self.scale.exp() * self.scale)


class Blocked(torch.autograd.Function):
    """Lets no gradient through."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return None


class BehindABlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x):
        return self.outer(Blocked.apply(self.inner(x)))


class Constant(nn.Module):
    """Takes no notice of its input; with a weight, or with nothing that learns."""

    def __init__(self, learns):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 6), requires_grad=learns)

    def forward(self, x):
        return self.weight * 2


def frozen():
    model = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6))
    model[0].weight.requires_grad_(False)
    model[2].bias.requires_grad_(False)
    return model


STAGES = {
    "linear": lambda: nn.Sequential(nn.Linear(6, 5), nn.GELU(), nn.Linear(5, 6)),
    "convolution": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 6)),
        nn.Conv1d(1, 3, 3, padding=1),
        nn.BatchNorm1d(3),
        nn.Flatten(),
        nn.Linear(18, 6),
    ),
    "layer norm": lambda: nn.Sequential(nn.LayerNorm(6), nn.Linear(6, 6), nn.LayerNorm(6)),
    "one weight in many places": Same,
    "residual": Residual,
    "frozen": frozen,
    "all frozen": lambda: nn.Linear(6, 6).requires_grad_(False),
    "no parameters": lambda: nn.Sequential(nn.Tanh(), nn.Softmax(-1)),
    "nothing done": nn.Identity,
    "no gradient gets through": BehindABlock,
    "input not used": lambda: Constant(learns=True),
    "nothing used": lambda: Constant(learns=False),
}


def run(module, order, *, waits=True, is_last=False):
    """The actions of a row ("F0 F1 I0 W0"), of a stage in the middle or the last. What they left, and the stage."""
    module, made = copy.deepcopy(module), torch.Generator().manual_seed(3)
    stage = StageRun(1, module, F.mse_loss, with_backward=True)
    x, y = torch.randn(2, 3, 4, 6, generator=made, dtype=torch.float64)
    stage.inputs = {i: each.clone().requires_grad_(waits) for i, each in enumerate(x)}
    if is_last:
        stage.targets = tuple(y)
    for word in order.split():
        kind, i = word[0], int(word[1])
        if kind in "BI" and i in stage.outputs and stage.outputs.pop(i).requires_grad:
            stage.gradients[i] = y[i]
        stage.run(Action(kind, 1, i))
    return [p.grad for p in module.parameters()], stage


def assert_equal(got, want):
    """Tensors, or None at the same places."""
    assert [g is None for g in got] == [w is None for w in want]
    for g, w in zip(got, want, strict=True):
        if w is not None:
            torch.testing.assert_close(g, w, rtol=0, atol=1e-12)


@pytest.mark.parametrize("is_last", [False, True], ids=["in the middle", "last"])
@pytest.mark.parametrize("waits", [True, False], ids=["input waits", "input wants none"])
@pytest.mark.parametrize("kind", STAGES)
def test_two_halves_are_the_whole(kind, waits, is_last):
    torch.manual_seed(0)
    module = STAGES[kind]().double()
    whole, by_whole = run(module, "F0 F1 B0 F2 B1 B2", waits=waits, is_last=is_last)
    halves, by_halves = run(module, "F0 F1 I0 F2 I1 W1 I2 W0 W2", waits=waits, is_last=is_last)
    assert_equal(halves, whole)
    numbers = range(3) if waits else ()
    assert sorted(by_halves.input_gradients) == sorted(by_whole.input_gradients) == [*numbers]
    assert_equal(*([s.input_gradients[i] for i in numbers] for s in (by_halves, by_whole)))
    assert by_halves.peak_in_flight == by_whole.peak_in_flight + 1 == 3  # W0 came late
    untouched, _ = run(module, "F0 I0", waits=waits, is_last=is_last)
    assert untouched == [None] * len(untouched)  # weights wait for W


def test_a_block_of_a_transformer_in_two_halves():
    torch.manual_seed(0)
    block = TransformerBlock(TransformerConfig(width=6, num_heads=2)).double()
    x = torch.randn(2, 3, 6, dtype=torch.float64, requires_grad=True)
    gradient = torch.randn(2, 3, 6, dtype=torch.float64)
    want = torch.autograd.grad(block(x), [x, *block.parameters()], gradient)
    edge = torch.autograd.graph.get_gradient_edge(block(x))
    of_x, backward_for_weights = backward_for_inputs(edge, gradient, x, block.parameters())
    backward_for_weights()
    assert_equal([of_x, *(p.grad for p in block.parameters())], want)


class Watched(nn.Module):
    """Sees which of its activations are still kept, for the weights of ``outer``."""

    def __init__(self):
        super().__init__()
        self.inner, self.outer, self.kept = nn.Linear(6, 6), nn.Linear(6, 6), weakref.WeakSet()

    def forward(self, x):
        middle = self.inner(x)
        self.kept.add(middle)
        return self.outer(middle)

    def __deepcopy__(self, _):
        return self


@pytest.mark.parametrize(
    ("order", "num_kept"),
    [("F0", 1), ("F0 B0", 0), ("F0 I0", 1), ("F0 I0 W0", 0), ("F0 F1 F2 I1 I0 W1", 2), ("F0 F1 B1 I0 W0", 0)],
)
@pytest.mark.parametrize("waits", [True, False])
def test_activations_go_with_b_or_w_and_not_before(order, num_kept, waits):
    module = Watched().double()
    _, stage = run(module, order, waits=waits)
    assert len(module.kept) == num_kept
    assert stage.peak_in_flight == order.split("B")[0].split("I")[0].count("F")


def test_a_half_that_fails_bears_the_name_of_its_stage():
    module = nn.Linear(6, 6).double()
    module.register_forward_hook(lambda _module, _inputs, output: Fails.apply(output))
    with pytest.raises(StageFailed, match=r"stage 1 failed in the backward for inputs of micro-batch 0: Arith"):
        run(module, "F0 I0")
