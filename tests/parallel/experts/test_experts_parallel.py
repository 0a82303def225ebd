"""Experts on several ranks: against one process on one device, in float64, with sizes that do not divide."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from expert_cases import WIDTH, layer_of, tokens_of
from torch import nn
from torch.distributed._functional_collectives import all_to_all_single_autograd

from course_lib.layouts.mesh import Mesh
from course_lib.meter import metered
from course_lib.parallel.collectives.members import Members
from course_lib.parallel.data import global_mean
from course_lib.parallel.experts import (
    ExpertParallel,
    average_gradients,
    count_choices,
    exchange_rows,
    load_balancing_loss,
    update_selection_bias,
)
from course_lib.parallel.mesh import MeshGroups
from course_lib.parallel.tensor import gather_state

pytestmark = [
    pytest.mark.xdist_group("experts"),
    pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning"),
]

NUM_STEPS = 5
TOKENS = (5, 0, 7, 2, 1, 4, 3, 6)  # of each rank, in one step
OPTIONS = [{"top_k": 1}, {"top_k": 3, "normalised": True, "capacity_factor": 5.0}]
MESHES = [
    Mesh.of(dp_replicate=1, ep=2),
    Mesh.of(dp_replicate=2, ep=2),
    Mesh.of(ep=4, dp_replicate=1),
    Mesh.of(ep=2, dp_replicate=2),
    Mesh.of(dp_replicate=2, ep=1),
    Mesh.of(dp_replicate=1, ep=3),  # no power of two: what is divided in float32 shows
]
LARGE_MESHES = [Mesh.of(dp_replicate=2, ep=4), Mesh.of(ep=2, dp_replicate=4), Mesh.of(dp_replicate=2, ep=3)]


class Model(nn.Module):
    """Linear, experts, experts, linear: what is on both sides of a layer is all ranks' own."""

    def __init__(self, options: dict) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.before = nn.Linear(WIDTH, WIDTH).double()
        self.first = layer_of(num_experts=5, **options)
        self.second = layer_of(num_experts=4, **options)
        self.after = nn.Linear(WIDTH, 1).double()

    def forward(self, x):
        x = self.before(x).tanh()
        x = x + self.first(x)
        return self.after(x + self.second(x))

    def balance(self, me, group=None):
        return sum(load_balancing_loss(me, layer.routing, group=group) for layer in (self.first, self.second))


class Alone:
    rank, world_size = 0, 1


def batch(rank: int, step: int):
    return tokens_of(TOKENS[rank], seed=100 * step + rank)


def loss_sum(y, x):
    return ((y.squeeze(-1) - x.sum(-1)) ** 2).sum()


@torch.no_grad()
def step_with_momentum(model, velocities):
    """Unlike Adam's, its steps are as large as the gradients: a factor too much shows."""
    for parameter, velocity in zip(model.parameters(), velocities, strict=True):
        parameter -= 0.05 * velocity.mul_(0.9).add_(parameter.grad)


def bias_step(me, model, group=None):
    for layer in (model.first, model.second):
        update_selection_bias(layer.router, count_choices(me, layer.routing, group=group), rate=0.01)


def trained_alone(num_ranks: int, options: dict):
    model, losses = Model(options), []
    velocities = [torch.zeros_like(p) for p in model.parameters()]
    for step in range(NUM_STEPS):
        x = torch.cat([batch(rank, step) for rank in range(num_ranks)])
        model.zero_grad()
        loss = loss_sum(model(x), x) / len(x) + 0.1 * model.balance(Alone)
        loss.backward()
        step_with_momentum(model, velocities)
        bias_step(Alone, model)
        losses.append(loss.item())
    return losses, model.state_dict(), {name: p.grad for name, p in model.named_parameters()}


def trained(me, mesh, options):
    groups = MeshGroups(me, mesh, together=[("dp_replicate", "ep")])
    model, losses = Model(options), []
    model.first = ExpertParallel(me, model.first, group=groups.group("ep"))
    model.second = ExpertParallel(me, model.second, group=groups.group("ep"))
    velocities = [torch.zeros_like(p) for p in model.parameters()]
    for step in range(NUM_STEPS):
        x = batch(me.rank, step)
        model.zero_grad()
        loss = global_mean(me, loss_sum(model(x), x), len(x)) + 0.1 * model.balance(me)
        loss.backward()
        average_gradients(model, groups)
        step_with_momentum(model, velocities)
        bias_step(me, model)
        dist.all_reduce(told := loss.detach().clone())
        losses.append(told.item() / me.world_size)
    state = gather_state(me, model, group=groups.group("ep"))
    grads = {name: p.grad for name, p in model.named_parameters()}
    groups.close()
    return losses, state, grads, mesh.coordinates(me.rank)["ep"]


@pytest.mark.first_cases(2)
@pytest.mark.parametrize(
    ("mesh", "options"),
    [
        *((mesh, {}) for mesh in MESHES),
        *((MESHES[1], options) for options in OPTIONS),
        *(pytest.param(mesh, {}, marks=pytest.mark.long) for mesh in LARGE_MESHES),
    ],
    ids=str,
)
def test_five_steps_are_those_of_one_process(clusters, mesh, options):
    losses, state, grads = trained_alone(mesh.num_ranks, options)
    for ours, our_state, our_grads, place in clusters(mesh.num_ranks).call(trained, (mesh, options)):
        assert ours == pytest.approx(losses, rel=1e-10)
        assert our_state.keys() == state.keys()
        for name, wanted in state.items():
            assert torch.allclose(our_state[name], wanted, rtol=0, atol=1e-10), name
        for name, grad in our_grads.items():
            wanted = grads[name]
            if ".experts." in name:
                sizes = [len(part) for part in wanted.tensor_split(mesh.size("ep"))]
                wanted = wanted.split(sizes)[place]
            assert torch.allclose(grad, wanted, rtol=0, atol=1e-10), name


def test_nccl_would_take_experts_beside_data_parallelism(clusters):
    run = metered(clusters(4), trained, Mesh.of(dp_replicate=2, ep=2), {})
    assert run.communication.nccl_breaches() == ()


def outputs_and_input_gradients(me, num_experts, tokens, options):
    layer = ExpertParallel(me, layer_of(num_experts=num_experts, **options))
    x = tokens_of(tokens[me.rank], seed=me.rank).requires_grad_()
    y = layer(x.view(1, -1, WIDTH))
    y.sin().sum().backward()
    return y.detach(), x.grad, layer.experts.w_up.grad, layer.router.weight.grad, layer.routing.kept


@pytest.mark.parametrize(
    ("num_ranks", "num_experts", "tokens", "options"),
    [
        (1, 3, (4,), {}),
        (2, 5, (6, 3), {}),
        (3, 5, (1, 0, 9), {"top_k": 1}),
        (3, 3, (0, 0, 2), {}),
        (4, 6, (3, 5, 2, 4), {"top_k": 4}),
        # Each rank counts its own, so each is a batch of its own.
        (3, 4, (9, 6, 8), {"capacity_factor": 0.6}),
    ],
)
def test_output_and_gradients_are_those_of_each_ranks_tokens_alone(clusters, num_ranks, num_experts, tokens, options):
    answers = clusters(num_ranks).call(outputs_and_input_gradients, (num_experts, tokens, options))
    layer = layer_of(num_experts=num_experts, **options)
    for rank, (y, grad, _, grad_router, kept) in enumerate(answers):
        x = tokens_of(tokens[rank], seed=rank).requires_grad_()
        wanted = layer(x)
        layer.router.weight.grad = None
        wanted.sin().sum().backward()
        assert y.shape == (1, tokens[rank], WIDTH)
        assert torch.allclose(y[0], wanted, atol=1e-12)
        assert torch.allclose(grad, x.grad, atol=1e-12)
        assert torch.allclose(grad_router, layer.router.weight.grad, atol=1e-12), "a rank's own, not yet averaged"
        assert torch.equal(kept, layer.routing.kept)
    if "capacity_factor" in options:
        assert not all(kept.all() for *_, kept in answers)
    joined = torch.cat([grad_up for _, _, grad_up, _, _ in answers])
    assert torch.allclose(joined, layer.experts.w_up.grad, atol=1e-12), "the sum over all ranks' tokens"


def all_to_expert(me, expert):
    layer = layer_of(num_experts=4, top_k=1)
    layer.router.selection_bias[expert] = 9.0
    split = ExpertParallel(me, layer)
    x = tokens_of(3, seed=me.rank)
    y = split(x)
    y.sum().backward()
    return torch.allclose(y, layer(x)), split.experts.w_up.grad.abs().sum((1, 2)).tolist()


def test_one_expert_may_get_all_and_the_others_have_zeros_for_gradients(cluster2):
    (same, none), (same_too, some) = cluster2.call(all_to_expert, (3,))
    assert same
    assert same_too
    assert none == [0.0, 0.0]
    assert some[0] == 0.0 < some[1]


# -- the exchange --------------------------------------------------------------------------------------------------


def exchanged_by_both(me):
    """Rank i has i + j rows for rank j, and 0 for itself."""
    n, members = me.world_size, Members.of(me, None)
    send = [me.rank + j if j != me.rank else 0 for j in range(n)]
    recv = [i + me.rank if i != me.rank else 0 for i in range(n)]
    ours, theirs = (tokens_of(sum(send), seed=me.rank).requires_grad_() for _ in range(2))
    come = exchange_rows(members, ours, send, recv)
    wanted = all_to_all_single_autograd(theirs, recv, send, dist.group.WORLD)
    come.pow(3).sum().backward()
    wanted.pow(3).sum().backward()
    again = ours.detach().requires_grad_()
    (once,) = torch.autograd.grad(exchange_rows(members, again, send, recv).pow(3).sum(), again, create_graph=True)
    once.pow(2).sum().backward()  # of (3 x^2)^2
    twice = torch.allclose(again.grad, 36 * again.detach() ** 3)
    return torch.equal(come, wanted), torch.equal(ours.grad, theirs.grad), twice


def test_rows_and_their_gradients_travel_as_pytorchs_do(clusters):
    for same, same_gradient, twice in clusters(3).call(exchanged_by_both):
        assert same
        assert same_gradient
        assert twice
