"""The layer on one device: against the formula, token by token; the router, its precision, capacity, balance."""

from __future__ import annotations

import copy
from types import SimpleNamespace

import pytest
import torch
from expert_cases import WIDTH, dense, layer_of, tokens_of
from torch import nn

from course_lib.parallel.experts import (
    Experts,
    MixtureOfExperts,
    TopKRouter,
    expert_capacity,
    load_balancing_loss,
    update_selection_bias,
    within_capacity,
)

ALONE = SimpleNamespace(rank=0, world_size=1)


@pytest.mark.parametrize(
    "options",
    [{}, {"top_k": 1}, {"top_k": 5, "normalised": True}, {"normalised": True}, {"capacity_factor": 0.7}],
    ids=str,
)
def test_output_and_gradients_are_those_of_the_formula(options):
    layer, oracle = layer_of(**options), layer_of(**options)
    x, x_oracle = (tokens_of(11).requires_grad_() for _ in range(2))
    y = layer(x.view(1, 11, WIDTH))
    kept = layer.routing.kept if "capacity_factor" in options else None
    assert (kept is None) == bool(layer.routing.kept.all())
    wanted = dense(oracle, x_oracle, kept=kept)
    assert torch.allclose(y, wanted, atol=1e-12)
    weights = tokens_of(11, seed=9)
    (y * weights).sum().backward()
    (wanted * weights).sum().backward()
    pairs = [(x, x_oracle), *zip(layer.parameters(), oracle.parameters(), strict=True)]
    for ours, theirs in pairs:
        assert torch.allclose(ours.grad, theirs.grad, atol=1e-12)
    assert layer.router.weight.grad.abs().max() > 1e-3, "the router learns by the weights"


def test_no_tokens_at_all_are_a_layer_too():
    layer = layer_of(capacity_factor=1.0)
    y = layer(tokens_of(0))
    y.sum().backward()
    assert y.shape == (0, WIDTH)
    assert all(p.grad is not None and not p.grad.any() for p in layer.parameters())


# -- precision -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("autocast", [False, True])
def test_the_router_computes_in_float32_whatever_the_layer_computes_in(autocast):
    layer = layer_of(num_experts=64).float()
    x = tokens_of(200).float()
    if autocast:
        with torch.autocast("cpu", torch.bfloat16):
            y = layer(x)
        wanted = x
    else:
        layer, wanted = layer.bfloat16(), x.bfloat16()
        y = layer(wanted)
    assert y.dtype == torch.bfloat16
    assert layer.routing.probabilities.dtype == torch.float32
    weight = layer.router.weight.double()
    scores = wanted.double() @ weight.T
    assert torch.equal(layer.routing.experts, scores.topk(2, -1).indices)
    in_16_bits = (wanted.bfloat16() @ weight.bfloat16().T).softmax(-1).topk(2, -1).indices
    assert not torch.equal(layer.routing.experts, in_16_bits), "else this could not fail"


def test_the_bias_stays_in_float32_when_the_model_does_not():
    router = TopKRouter(4, 3)
    update_selection_bias(router, torch.tensor([5, 1, 0]))
    router.bfloat16()
    assert router.weight.dtype == torch.bfloat16
    assert router.selection_bias.tolist() == pytest.approx([-1e-3, 1e-3, 1e-3], rel=1e-6)
    assert router.double().selection_bias.dtype == torch.float64


# -- capacity ------------------------------------------------------------------------------------------------------


def test_first_choices_come_first_and_then_tokens_in_turn():
    experts = torch.tensor([[1, 0], [0, 1], [0, 1], [2, 0]])
    kept = within_capacity(experts, num_experts=4, capacity=2)
    assert kept.tolist() == [[True, False], [True, True], [True, False], [True, False]]
    assert not within_capacity(experts, num_experts=4, capacity=0).any()


@pytest.mark.parametrize("num_tokens", [0, 1, 13, 40])
def test_capacity_keeps_as_many_of_each_expert_as_it_has_room_for(num_tokens):
    layer = layer_of(capacity_factor=0.75)
    layer(tokens_of(num_tokens))
    capacity = expert_capacity(num_tokens, num_experts=5, top_k=2, capacity_factor=0.75)
    routing = layer.routing
    assert torch.equal(routing.loads, routing.choices.clamp(max=capacity))
    if num_tokens == 40:
        assert routing.choices.sum() == 80
        assert routing.dropped_share.item() == pytest.approx(1 - routing.loads.sum().item() / 80)
        assert routing.dropped_share > 0.1


def test_capacity_is_the_even_share_times_its_factor_rounded_up_and_never_more_than_all():
    sizes = {"num_experts": 8, "top_k": 2}
    assert expert_capacity(10, **sizes, capacity_factor=1.0) == 3
    assert expert_capacity(10, **sizes, capacity_factor=float("inf")) == 10
    assert expert_capacity(0, **sizes, capacity_factor=2.0) == 0


# -- balance -------------------------------------------------------------------------------------------------------


def test_the_balance_loss_is_1_for_busy_experts_and_its_gradient_makes_them_busier():
    layer = layer_of(num_experts=4, top_k=1)
    x = tokens_of(63).abs()  # all on one side: a few experts get most
    layer.router.weight.data *= 0.1
    layer(x)
    before = load_balancing_loss(ALONE, layer.routing)
    counts = layer.routing.choices.double()
    means = layer.routing.probabilities.mean(0)
    assert before.item() == pytest.approx((4 * (counts / 63 * means).sum()).item(), rel=1e-13)
    for _ in range(60):
        layer.router.weight.grad = None
        layer(x)
        load_balancing_loss(ALONE, layer.routing).backward()
        layer.router.weight.data -= 0.05 * layer.router.weight.grad
    assert layer.routing.choices.max() < counts.max()
    assert load_balancing_loss(ALONE, layer.routing) < before
    even = layer.routing.__class__(
        torch.arange(4).view(4, 1), torch.ones(4, 1), torch.full((4, 4), 0.25), torch.ones(4, 1).bool()
    )
    assert load_balancing_loss(ALONE, even).item() == 1.0


def test_the_bias_moves_tokens_and_leaves_the_weights_of_outputs_alone():
    layer = layer_of(num_experts=4, top_k=1)
    layer.router.weight.data *= 0.1
    x = tokens_of(64).abs()
    layer(x)
    before = layer.routing.choices
    for _ in range(300):
        update_selection_bias(layer.router, layer.routing.choices, rate=2e-3)
        layer(x)
    routing = layer.routing
    assert before.max() - before.min() > 20
    assert routing.choices.max() - routing.choices.min() < 8
    assert torch.equal(routing.weights, routing.probabilities.gather(1, routing.experts))
    assert torch.allclose(routing.probabilities, (x @ layer.router.weight.T).softmax(-1))
    assert torch.allclose(layer(x), dense(layer, x))


# -- what goes wrong -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: TopKRouter(4, 3, top_k=4),
            "top_k=4 experts cannot be chosen from num_experts=3.*nearest.* 3",
        ),
        (lambda: TopKRouter(4, 3, top_k=1, normalised=True), "makes every weight 1"),
        (lambda: TopKRouter(4, 3, capacity_factor=0.0), "capacity_factor is 0.0"),
        (lambda: TopKRouter(0, 3), "width=0 does not work"),
        (lambda: Experts(4, hidden=0, num_experts=2), "hidden=0 does not work"),
        (lambda: Experts(4, hidden=2, num_experts=2)(torch.zeros(3, 4), [1, 1]), "add up to the 3 rows"),
        (lambda: Experts(4, hidden=2, num_experts=2)(torch.zeros(3, 4), [3]), "2 experts need a number"),
        (lambda: MixtureOfExperts(4, hidden=2, num_experts=2)(torch.zeros(3, 5)), r"shape \(3, 5\).*width 4"),
        (lambda: update_selection_bias(TopKRouter(4, 3), torch.zeros(2)), r"has 3 experts and wants \(3,\)"),
        (lambda: update_selection_bias(TopKRouter(4, 3), torch.zeros(3), rate=-1.0), "rate is -1.0"),
        (lambda: expert_capacity(-1, num_experts=2, top_k=1, capacity_factor=1.0), "num_tokens=-1"),
        (
            lambda: load_balancing_loss(ALONE, TopKRouter(4, 3)(torch.zeros(0, 4))),
            "0 tokens on every rank",
        ),
    ],
)
def test_what_cannot_work_is_told(make, said):
    with pytest.raises(ValueError, match=said):
        make()


def test_a_layer_that_has_run_can_be_copied_and_takes_the_place_of_an_mlp():
    from course_lib.models import Transformer, TransformerConfig, next_token_loss

    model = Transformer(TransformerConfig(vocab_size=7, context_length=4, num_layers=1, width=8, num_heads=2))
    model.blocks[0].mlp = MixtureOfExperts(8, hidden=16, num_experts=3)
    tokens = torch.arange(5).view(1, 5)
    next_token_loss(model(tokens[:, :-1]), tokens[:, 1:]).backward()
    again = copy.deepcopy(model)
    assert model.blocks[0].mlp.routing is not None
    assert again.blocks[0].mlp.routing is None
    assert isinstance(again.blocks[0].mlp, nn.Module)
    assert torch.equal(again(tokens[:, :-1]), model(tokens[:, :-1]))
