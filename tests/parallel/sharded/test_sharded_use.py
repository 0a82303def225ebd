"""A sharded optimizer is used as the plain one is: whatever a training loop does between steps, the weights agree.

Each way of use is a function of the model, the optimizer and a batch. It is run by one process with the plain
optimizer and all rows, and on ranks with ours.
"""

from __future__ import annotations

import copy
import re

import pytest
import torch
from ddp_cases import message_of
from sharded_cases import backward
from sharded_cases import optimizer_step as step
from sharded_cases import with_a_frozen_bias as make
from torch import nn

from course_lib.cluster import Rank
from course_lib.parallel.sharded import ShardedOptimizer

pytestmark = [
    pytest.mark.xdist_group("sharded"),
    pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning"),
]

NUM_RANKS, ROWS_OF_A_RANK = 3, 2
ALONE = Rank(0, 1, torch.device("cpu"), "gloo")


# -- ways of use --------------------------------------------------------------------------------------------------


def gradients_let_go_by_the_model(model, opt, x):
    backward(model, x)
    model.zero_grad()
    backward(model, x)
    opt.step()


def gradients_of_a_part_let_go(model, opt, x):
    backward(model, x)
    model[0].zero_grad()
    backward(model, x)
    opt.step()


def no_zero_grad_at_all(model, opt, x):
    for _ in range(3):
        backward(model, x)
    opt.step()


def clipped_and_then_left_out(model, opt, x):
    step(model, opt, x)
    backward(model, x)
    clip(model, opt)
    model.zero_grad()
    backward(model, 3 * x)
    opt.step()


def clip(model, opt):
    if isinstance(opt, ShardedOptimizer):
        opt.clip_grad_norm(0.01)
    else:
        nn.utils.clip_grad_norm_(model.parameters(), 0.01)


def weights_loaded_between(model, opt, x):
    first = copy.deepcopy(model.state_dict())
    step(model, opt, x)
    model.load_state_dict(first)
    step(model, opt, x)


def memory_format_changed(model, opt, x):
    step(model, opt, x)
    model.to(memory_format=torch.channels_last)
    step(model, opt, x)
    model.to(memory_format=torch.contiguous_format)
    step(model, opt, x)


def data_replaced(model, opt, x):
    for p in model.parameters():
        p.data = p.data * 0.5
    step(model, opt, x)


def by_a_closure(model, opt, x):
    def closure():
        opt.zero_grad()
        return backward(model, x)

    opt.step(closure)


def one_cycle(model, opt, x):
    scheduler = torch.optim.lr_scheduler.OneCycleLR(opt, 0.1, total_steps=4)  # asks for the class's own betas
    for _ in range(3):
        step(model, opt, x)
        scheduler.step()


def settings_changed(model, opt, x):
    step(model, opt, x)
    opt.param_groups[0]["lr"] = 0.5
    opt.param_groups[0]["weight_decay"] = 0.3
    step(model, opt, x)


def gradients_by_hand(model, opt, x):
    for p in model.parameters():
        if p.requires_grad:
            p.grad = torch.ones_like(p)
    clip(model, opt)
    opt.step()


def gradients_replaced(model, opt, x):
    backward(model, x)
    for p in model.parameters():
        if p.requires_grad:
            p.grad = torch.full_like(p, 2.0)
    opt.step()


def other_gradients_between(model, opt, x):
    backward(model, x)
    trained = [p for p in model.parameters() if p.requires_grad]
    torch.autograd.grad(model(x).sum(), trained)
    backward(model, x)
    opt.step()


def evaluated_between(model, opt, x):
    step(model, opt, x)
    with torch.inference_mode():
        model(x)
    step(model, opt, x)


def step_in_inference_mode(model, opt, x):
    for _ in range(2):
        backward(model, x)
        with torch.inference_mode():
            opt.step()
            opt.zero_grad()


def states_loaded_between(model, opt, x):
    step(model, opt, x)
    kept = copy.deepcopy(opt.state_dict())
    step(model, opt, x)
    opt.load_state_dict(kept)
    step(model, opt, x)


def parameters_added(model, opt, x):
    step(model, opt, x)
    torch.manual_seed(1)
    extra = nn.Linear(3, 2).double()
    extra.bias.requires_grad_(False)
    opt.add_param_group({"params": extra.named_parameters(), "lr": 0.3})
    model.append(extra)
    step(model, opt, x)
    step(model, opt, x)


WAYS = [
    gradients_let_go_by_the_model,
    gradients_of_a_part_let_go,
    no_zero_grad_at_all,
    clipped_and_then_left_out,
    weights_loaded_between,
    memory_format_changed,
    data_replaced,
    by_a_closure,
    one_cycle,
    settings_changed,
    gradients_by_hand,
    gradients_replaced,
    other_gradients_between,
    evaluated_between,
    step_in_inference_mode,
    states_loaded_between,
    parameters_added,
]


def use(me: Rank | None, way, stage: int):
    model = make()
    x = torch.randn(ROWS_OF_A_RANK * NUM_RANKS, 3, 3, 3, generator=torch.Generator().manual_seed(1)).double()
    if me:
        x = x[ROWS_OF_A_RANK * me.rank : ROWS_OF_A_RANK * (me.rank + 1)]
        opt = ShardedOptimizer(me, model.named_parameters(), torch.optim.AdamW, stage=stage, lr=0.05)
    else:
        opt = torch.optim.AdamW(model.named_parameters(), lr=0.05)
    way(model, opt, x)
    return {name: p.detach().clone() for name, p in model.named_parameters()}


@pytest.mark.first_cases(8)
@pytest.mark.parametrize("stage", [1, 2])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_weights_are_those_of_the_plain_optimizer(clusters, way, stage):
    expected = use(None, way, stage)
    results = list(clusters(NUM_RANKS).call(use, (way, stage), show=False))
    for weights in results:
        for name, value in expected.items():
            assert torch.equal(weights[name], results[0][name]), name
            torch.testing.assert_close(weights[name], value, rtol=1e-9, atol=1e-11, msg=name)


# -- states: numbered as the plain optimizer's, frozen parameters too ----------------------------------------------


def two_groups(model):
    """The frozen bias stands first in the second group."""
    return [
        {"params": model[0].parameters()},
        {"params": [model[3].bias, model[3].weight, *model[5].parameters()]},
    ]


def of_two_groups(me: Rank | None, stage: int, num_steps: int, state=None):
    """Steps on two groups, from ``state`` if there is one: the weights, and the whole states."""
    model = make()
    x = torch.ones(2, 3, 3, 3, dtype=torch.float64)
    if me:
        opt = ShardedOptimizer(me, two_groups(model), torch.optim.AdamW, stage=stage, lr=0.05)
    else:
        opt = torch.optim.AdamW(two_groups(model), lr=0.05)
    if state is not None:
        (opt.load_full_state_dict if me else opt.load_state_dict)(copy.deepcopy(state))
    for _ in range(num_steps):
        step(model, opt, x)
    return model.state_dict(), opt.full_state_dict() if me else opt.state_dict()


@pytest.mark.parametrize("stage", [1, 2])
def test_states_of_the_plain_optimizer_and_ours_load_both_ways(clusters, stage):
    _, plain_state = of_two_groups(None, stage, 2)
    own_state = clusters(2).call(of_two_groups, (stage, 2), show=False)[1][1]
    assert own_state["param_groups"] == plain_state["param_groups"]
    assert own_state["state"].keys() == plain_state["state"].keys() == {0, 1, 3, 4, 5}
    for number, state in plain_state["state"].items():
        for name, value in state.items():
            torch.testing.assert_close(own_state["state"][number][name], value, rtol=1e-12, atol=1e-15)
    expected, _ = of_two_groups(None, stage, 1, plain_state)
    ways = [of_two_groups(None, stage, 1, own_state)]
    ways += clusters(3).call(of_two_groups, (stage, 1, plain_state), show=False)
    for weights, _ in ways:
        for name, value in expected.items():
            torch.testing.assert_close(weights[name], value, rtol=1e-9, atol=1e-11, msg=name)


def test_states_of_other_groups_are_refused():
    opt = ShardedOptimizer(ALONE, two_groups(make()), torch.optim.AdamW)
    plain = torch.optim.AdamW([p for p in make().parameters() if p.requires_grad])
    with pytest.raises(ValueError, match=r"groups of \[5\] parameters, and this optimizer has groups of \[2, 4\]"):
        opt.load_full_state_dict(plain.state_dict())


# -- ranks that do not agree ---------------------------------------------------------------------------------------


def test_a_forgotten_seed_is_made_good_and_other_shapes_are_told_on_all_ranks(clusters):
    def other_values(me):
        torch.manual_seed(me.rank)
        model = nn.Linear(4, 3)
        frozen = nn.Parameter(torch.randn(2), requires_grad=False)
        torch.manual_seed(0)
        first = nn.Linear(4, 3).weight
        first_frozen = torch.randn(2) if me.rank else frozen
        ShardedOptimizer(me, [*model.parameters(), frozen], torch.optim.SGD, lr=0.0)
        return torch.equal(model.weight, first), first_frozen.shape == frozen.shape, frozen.tolist()

    results = list(clusters(2).call(other_values, show=False))
    assert [result[:2] for result in results] == [(True, True)] * 2
    assert results[0][2] == results[1][2]

    def other_shapes(me, first):
        model = nn.Linear(4, 3 + me.rank)
        opt = None if first else ShardedOptimizer(me, nn.Linear(2, 2).parameters(), torch.optim.SGD, lr=0.1)
        message = message_of(
            lambda: (
                opt.add_param_group({"params": model.parameters()})
                if opt
                else ShardedOptimizer(me, model.parameters(), torch.optim.SGD)
            )
        )
        return message, opt and len(opt.param_groups)

    for first in (True, False):
        for message, num_groups in clusters(2).call(other_shapes, (first,), show=False):
            assert re.search(r"rank 0 has 0 \(3, 4\) .* where rank 1 has 0 \(4, 4\)", message), message
            assert num_groups in (None, 1)
