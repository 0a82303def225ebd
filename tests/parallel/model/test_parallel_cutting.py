"""Where to cut: the programme against all cuts there are, costs against the ledger, parts against the whole."""

from __future__ import annotations

import itertools
import random

import pytest
import torch
from torch import nn

from course_lib.meter import MemoryLedger, Timeline
from course_lib.models import ResNet, SmallCNN, Transformer, TransformerConfig
from course_lib.parallel.model import (
    crossing_costs,
    cut,
    memory_costs,
    parameter_costs,
    pieces_of,
    split_evenly,
    tied_parameters,
    time_costs,
)

TINY = TransformerConfig(vocab_size=11, context_length=6, num_layers=3, width=8, num_heads=2)


def loads(costs, ranges):
    return sorted((sum(costs[i] for i in part) for part in ranges), reverse=True)


def every_cut(num_pieces, num_parts):
    for inner in itertools.combinations(range(1, num_pieces), num_parts - 1):
        yield [range(a, b) for a, b in itertools.pairwise((0, *inner, num_pieces))]


@pytest.mark.parametrize("seed", range(60))
def test_no_cut_is_better(seed):
    draw = random.Random(seed)
    costs = [draw.choice((0, 1, 2, 3, 5, 50)) for _ in range(draw.randint(1, 9))]
    num_parts = draw.randint(1, len(costs))
    got = split_evenly(costs, num_parts)
    cuts = list(every_cut(len(costs), num_parts))
    least = min(loads(costs, one) for one in cuts)
    assert loads(costs, got) == least
    tied = [one for one in cuts if loads(costs, one) == least]
    assert got == min(tied, key=lambda one: [part.start for part in one]), "of equal cuts, the one that cuts first"


def test_known_cuts():
    assert split_evenly([1, 1, 1, 1, 1, 5], 2) == [range(0, 5), range(5, 6)]
    # The rest is even too.
    assert split_evenly([10, 1, 1, 1, 1], 3) == [range(0, 1), range(1, 3), range(3, 5)]
    assert split_evenly([0.5], 1) == [range(0, 1)]
    assert [len(part) for part in split_evenly([1.0] * 50, 4)] == [12, 12, 13, 13]


@pytest.mark.parametrize(
    ("costs", "num_parts", "words"),
    [
        ([1, 2], 3, "num_parts=3 is more than there are pieces.*The most that works is 2"),
        ([1, 2], 0, "num_parts=0 does not work.*1"),
        ([1, -2], 1, r"costs\[1\]=-2 must be a number, 0 or more; the nearest that works is 0"),
        ([1, float("nan")], 1, r"costs\[1\]=nan"),
        (["a", 1], 1, r"costs\[0\]='a'"),
    ],
)
def test_costs_that_cannot_be_shared_out(costs, num_parts, words):
    with pytest.raises(ValueError, match=words):
        split_evenly(costs, num_parts)


MODELS = {
    "sequential": (lambda: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)), torch.ones(5, 4)),
    "cnn": (lambda: SmallCNN(width=4), torch.ones(5, 1, 8, 8)),
    "resnet": (lambda: ResNet((1, 1), width=4, num_classes=3, small_images=True), torch.ones(2, 3, 8, 8)),
    "transformer": (lambda: Transformer(TINY), torch.ones(2, 6, dtype=torch.int64)),
}


@pytest.fixture(params=MODELS)
def model_and_batch(request):
    make, x = MODELS[request.param]
    torch.manual_seed(0)
    return make(), x


def test_the_parts_are_the_model_under_the_same_names(model_and_batch):
    model, x = model_and_batch
    parts = cut(model, split_evenly(parameter_costs(model), 3))
    model.eval()
    y = x
    for part in parts:
        y = part(y)
    assert torch.equal(y, model(x))
    assert [name for part in parts for name in part.state_dict()] == list(model.state_dict())
    own = [parameter for part in parts for parameter in part.parameters()]
    assert all(a is b for a, b in zip(own, model.parameters(), strict=True))
    assert [name for part in parts for name in part.names] == list(pieces_of(model))


def test_memory_costs_add_up_to_what_the_ledger_sees_of_a_whole_step(model_and_batch):
    model, x = model_and_batch
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    costs = memory_costs(model, x)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    optimizer = torch.optim.AdamW(model.parameters())
    with MemoryLedger(model, optimizer, inputs=x) as ledger:
        y = model(x)
        forward = ledger.mark("after forward")
        y.sum().backward()
        optimizer.step()
    after = ledger.now()
    whole = forward["activation"] + sum(after[k] for k in ("parameter", "buffer", "gradient", "optimizer state"))
    assert sum(costs) == whole
    assert len(costs) == len(pieces_of(model))


def test_frozen_pieces_cost_no_gradient_and_no_state():
    model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))
    x = torch.ones(1, 4)
    free = memory_costs(model, x)
    model[0].requires_grad_(False)
    frozen = memory_costs(model, x)
    assert free[0] == 4 * 64 + 4  # weight, gradient, two moments; the step count; the input is nobody's activation
    assert frozen[0] == 64
    assert free[1] == frozen[1] == 4 * 64 + 4 + 16  # and it keeps what it was given


def test_parameters_of_a_tied_matrix_count_in_both_pieces():
    untied, tied = (Transformer(TransformerConfig(**{**vars(TINY), "tied": t})) for t in (False, True))
    assert parameter_costs(tied) == parameter_costs(untied)
    parts = cut(tied, [range(0, 2), range(2, 3), range(3, 5)])
    assert tied_parameters(parts) == {tied.stem.tokens.weight: (0, 2)}
    assert tied_parameters(cut(untied, [range(0, 2), range(2, 5)])) == {}


def test_time_costs_leave_the_model_as_it_was(model_and_batch):
    model, x = model_and_batch
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 7.0)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    costs = time_costs(model, x, repetitions=1)
    assert all(cost > 0 for cost in costs)
    assert len(costs) == len(pieces_of(model))
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert all(bool((parameter.grad == 7.0).all()) for parameter in model.parameters())


class Busy(nn.Module):
    """Moves a clock of its own by 1 in the forward pass and by 10 in the backward pass, the first round by more."""

    def __init__(self, clock, factor):
        super().__init__()
        self.weight, self.clock, self.factor, self.rounds = nn.Parameter(torch.ones(())), clock, factor, 0

    def forward(self, x):
        self.rounds += 1
        late = 1000 * (self.rounds == 1) + 100 * (self.rounds == 3)  # a cold start, and an accident
        self.clock[0] += self.factor + late
        if x.requires_grad:  # nobody asks for the gradient of the batch, but of what the piece before made of it
            x.register_hook(lambda _: self.clock.__setitem__(0, self.clock[0] + 100))
        y = x * self.weight
        y.register_hook(lambda _: self.clock.__setitem__(0, self.clock[0] + 10 * self.factor))
        return y


def test_time_costs_are_the_median_of_forward_and_backward_of_each_piece(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(
        "course_lib.parallel.model.piece_costs.Timeline",
        lambda device: Timeline(device=device, clock=lambda: clock[0]),
    )
    model = nn.Sequential(Busy(clock, 1), Busy(clock, 3), Busy(clock, 2))
    assert time_costs(model, torch.ones(2), repetitions=5) == [11, 133, 122]
    assert [piece.rounds for piece in model] == [6, 6, 6]
    model = nn.Sequential(Busy(clock, 1), Busy(clock, 3))
    assert time_costs(model, torch.ones(2), repetitions=1) == [11, 133], "the first round is not counted"


def test_crossing_costs_are_the_bytes_that_each_piece_passes_on(model_and_batch):
    model, x = model_and_batch
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    costs = crossing_costs(model, x)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    wanted, num_pieces = [], len(pieces_of(model))
    for part in cut(model, split_evenly([1] * num_pieces, num_pieces))[:-1]:
        x = part(x)
        wanted.append(x.numel() * x.element_size())
    assert costs == wanted


def test_crossing_costs_by_hand():
    halves = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2), nn.Linear(2, 1)).to(torch.bfloat16)
    assert crossing_costs(halves, torch.ones(5, 4, dtype=torch.bfloat16)) == [5 * 8 * 2, 5 * 2 * 2]
    assert crossing_costs(nn.Sequential(nn.Linear(4, 4)), torch.ones(1, 4)) == [], "nowhere to cut"


class Pair(nn.Module):
    def forward(self, x):
        return x, x


def test_a_piece_that_passes_on_no_tensor_is_named():
    with pytest.raises(TypeError, match=r"the piece 1 returns a tuple, and one tensor crosses a cut"):
        crossing_costs(nn.Sequential(nn.Linear(2, 2), Pair()), torch.ones(1, 2))


@pytest.mark.parametrize(
    "ranges",
    [[range(0, 2)], [range(0, 2), range(3, 4)], [range(0, 0), range(0, 4)], [range(2, 4), range(0, 2)]],
)
def test_a_cut_that_loses_repeats_or_reorders_pieces_is_refused(ranges):
    with pytest.raises(ValueError, match=r"4 pieces stem, blocks\.0, blocks\.1, head.*The nearest cut is"):
        cut(SmallCNN(width=2), ranges)


def test_a_model_without_pieces_is_refused():
    with pytest.raises(ValueError, match="cannot be listed in pieces"):
        cut(nn.Linear(2, 2), [range(0, 1)])
