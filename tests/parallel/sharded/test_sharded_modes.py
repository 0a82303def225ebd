"""FullySharded beside what else PyTorch has: inference mode, gradients of inputs, compilers, recomputation."""

from __future__ import annotations

import pytest
import sharded_cases
import torch
from ddp_cases import message_of
from sharded_cases import odd, transformer
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.utils.checkpoint import checkpoint

from course_lib.parallel.sharded import FullySharded

pytestmark = [
    pytest.mark.xdist_group("sharded"),
    pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning"),
]


def right_step(me, model: FullySharded) -> bool:
    """Whether the gradients of a step are those of one process."""
    x, y = (sharded_cases.own(me, t) for t in sharded_cases.odd_batch(me.world_size))
    model.zero_grad()
    sharded_cases.loss_of(model, x, y).backward()
    one = sharded_cases.alone(odd, me.world_size, 1)["gradients"]
    return all(
        gradient is None or torch.allclose(gradient, one[name], rtol=1e-10, atol=1e-13)
        for name, gradient in sharded_cases.whole_gradients(model).items()
    )


# -- inference mode -----------------------------------------------------------------------------------------------


def inferred(me, wrapping):
    model, plain = FullySharded(me, odd(), **wrapping), odd()
    x = sharded_cases.own(me, sharded_cases.odd_batch(me.world_size)[0])
    same = []
    for _ in range(2):  # the second with what comes next known, and asked for early
        with torch.inference_mode():
            same.append(torch.equal(model(x), plain(x)) and model(x).is_inference())
        same.append(right_step(me, model))

    class Clamps(nn.Linear):
        def forward(self, x):
            self.weight.clamp_(-0.1, 0.1)
            return super().forward(x)

    clamping = FullySharded(me, Clamps(5, 3).double())
    with torch.inference_mode():
        return same, message_of(lambda: clamping(x))


@pytest.mark.parametrize("wrapping", [{}, {"reshard_after_forward": False}], ids=str)
def test_under_inference_mode_values_are_right_and_training_goes_on(clusters, wrapping):
    for same, changed in clusters(2).call(inferred, (wrapping,), show=False):
        assert same == [True] * 4
        assert "weight was changed while it was whole" in changed


# -- gradients of inputs ------------------------------------------------------------------------------------------


def of_inputs(me, wrapping):
    ours, plain, theirs = FullySharded(me, odd(), **wrapping), odd(), odd()
    for block in theirs.blocks:
        fully_shard(block)
    fully_shard(theirs)
    x = sharded_cases.own(me, sharded_cases.odd_batch(me.world_size)[0]).requires_grad_()

    def by_grad(model):
        return torch.autograd.grad(model(x).square().sum(), x)[0]

    def by_inputs(model):
        x.grad = None
        model(x).square().sum().backward(inputs=[x])
        return x.grad

    found = []
    for way in (by_grad, by_inputs, by_grad):
        gradient = way(ours)
        found.append(torch.equal(gradient, way(plain)) and torch.equal(gradient, way(theirs)))
        found.append(all(p.grad is None for p in ours.parameters()))
        found.append(not any(unit.is_unsharded for unit in ours.units))
        found.append(right_step(me, ours))
        ours.zero_grad()
    return found


@pytest.mark.first_cases(2)
@pytest.mark.parametrize("wrapping", [{}, {"reshard_after_forward": False}, {"find_unused_parameters": True}], ids=str)
def test_gradients_of_inputs_alone(clusters, wrapping):
    for found in clusters(2).call(of_inputs, (wrapping,), show=False):
        assert found == [True] * len(found)


def asked_for_shards(me):
    model = FullySharded(me, odd())
    x = sharded_cases.own(me, sharded_cases.odd_batch(me.world_size)[0]).requires_grad_()
    shards = [p for p in model.parameters() if p.requires_grad]

    def penalty():
        (gradient,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        gradient.square().sum().backward()

    told = [
        message_of(lambda: torch.autograd.grad(model(x).sum(), shards)),
        message_of(lambda: torch.autograd.grad(model(x).sum(), [x, shards[-1]], allow_unused=True)),
        message_of(lambda: model(x).sum().backward(inputs=shards[:1])),
    ]
    return told, message_of(penalty), right_step(me, model)


def test_gradients_of_single_shards_and_of_gradients_are_refused(clusters):
    for told, penalty, next_is_right in clusters(2).call(asked_for_shards, show=False):
        for said in told:
            assert "asked for gradients of single parameters of" in said
            assert "Call backward() and read .grad" in said
        assert "create_graph=True does not work" in penalty
        assert next_is_right


# -- recomputation ------------------------------------------------------------------------------------------------


class Recomputes(nn.Module):
    """A layer that is run again in backward, and one that is not."""

    def __init__(self, use_reentrant: bool) -> None:
        super().__init__()
        self.again, self.once, self.use_reentrant = nn.Linear(5, 5), nn.Linear(5, 3), use_reentrant

    def forward(self, x: Tensor) -> Tensor:
        return self.once(checkpoint(self.again, x, use_reentrant=self.use_reentrant))


def recomputed(me, use_reentrant, find_unused_parameters):
    x = sharded_cases.own(me, sharded_cases.odd_batch(me.world_size)[0]).requires_grad_()

    def step(units_of, around=False):
        torch.manual_seed(0)
        plain = Recomputes(use_reentrant).double()
        torch.manual_seed(0)
        model = Recomputes(use_reentrant).double()
        model = FullySharded(me, model, units_of(model), find_unused_parameters=find_unused_parameters)
        tail = nn.Linear(3, 3).double()

        def run(f):
            def region(x):  # it goes on after the model
                return tail(f(x)).tanh()

            out = checkpoint(region, x, use_reentrant=use_reentrant) if around else f(x)
            out.square().sum().backward()

        said = message_of(lambda: run(model))
        if said != "nothing was raised":
            return said
        run(plain)
        expected = {name: p.grad for name, p in plain.named_parameters()}
        found = sharded_cases.whole_gradients(model)
        torch.distributed.barrier()
        mean = {name: expected[name].clone() for name in found}
        for gradient in mean.values():
            torch.distributed.all_reduce(gradient)
        return all(torch.allclose(found[n], mean[n] / me.world_size, rtol=1e-12) for n in mean)

    return [
        step(lambda m: [m.again, m.once]),  # around a unit
        step(lambda m: []),  # within one
        step(lambda m: [m.again, m.once], around=True),  # around the model, and more
        step(lambda m: [], around=True),
    ]


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("find_unused_parameters", [False, True])
def test_reentrant_checkpointing_is_refused_with_the_sentence_of_ddp(clusters, find_unused_parameters):
    for told in clusters(2).call(recomputed, (True, find_unused_parameters), show=False):
        for said in told:
            assert "again.weight" in said or "once.weight" in said
            assert "came from a backward within a backward" in said
            assert "use_reentrant=False" in said


def test_the_other_checkpointing_is_right_wherever_it_stands(clusters):
    for found in clusters(2).call(recomputed, (False, False), show=False):
        assert found == [True] * 4


# -- ranks that use other units -----------------------------------------------------------------------------------


class Chooses(nn.Module):
    """Ranks use the experts that ``chosen`` says, in its order: all of one size, so no message is of a wrong size."""

    def __init__(self, chosen: tuple[int, ...]) -> None:
        super().__init__()
        self.experts, self.last = nn.ModuleList(nn.Linear(5, 5) for _ in range(2)), nn.Linear(5, 3)
        self.chosen = chosen

    def forward(self, x: Tensor) -> Tensor:
        for i in self.chosen:
            x = self.experts[i](x)
        return self.last(x)


def choosing(me, by_rank):
    model = FullySharded(me, Chooses(by_rank[me.rank]).double(), find_unused_parameters=True)
    x = sharded_cases.own(me, sharded_cases.odd_batch(me.world_size)[0])

    def without_gradients():
        with torch.no_grad():
            model(x)

    told = [message_of(without_gradients), message_of(lambda: model(x).sum().backward())]
    model.module.chosen = (0, 1)
    return told, message_of(lambda: model(x).sum().backward()), message_of(without_gradients)


@pytest.mark.parametrize("by_rank", [((0,), (1,)), ((0, 1), (1, 0))], ids=str)
def test_ranks_that_use_other_units_hear_of_it(clusters, by_rank):
    for told, *then in clusters(2).call(choosing, (by_rank,), show=False):
        for said in told:
            assert "since the last check ranks have used different units, or another order of them" in said
            assert "experts." in said
        assert then == ["nothing was raised"] * 2


# -- compilers ----------------------------------------------------------------------------------------------------


def compiled(me, how, backend):
    import torch._dynamo as dynamo

    dynamo.reset()
    dynamo.utils.counters.clear()
    plain, inner = transformer(), transformer()
    if how == "its blocks":
        for block in inner.blocks:
            block.compile(backend=backend)
    model = FullySharded(me, inner)
    run = torch.compile(model, backend=backend) if how == "the model" else model
    if how == "the model within":
        inner.compile(backend=backend)
    x, y = sharded_cases.token_batch(me.world_size)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, plain)]
    graphs = []
    for _ in range(3):
        sharded_cases.loss_of(run, sharded_cases.own(me, x), sharded_cases.own(me, y)).backward()
        sharded_cases.loss_of(plain, x, y).backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        graphs.append(dynamo.utils.counters["stats"]["unique_graphs"])
    with torch.no_grad():
        own = sharded_cases.own(me, x)
        worst = (run(own) - plain(own)).abs().max().item()
    states = plain.state_dict(), model.full_state_dict()
    dynamo.reset()
    return max([worst, *((states[0][name] - t).abs().max().item() for name, t in states[1].items())]), graphs


@pytest.mark.long
@pytest.mark.parametrize(
    ("how", "backend"),
    [(how, backend) for backend in ("eager", "aot_eager") for how in ("its blocks", "the model", "the model within")],
)
def test_compiled_it_is_the_same_model(clusters, how, backend):
    for worst, graphs in clusters(2).call(compiled, (how, backend), show=False):
        assert worst < 1e-12
        assert graphs[0] > 0  # something was compiled,
        assert graphs == [graphs[0]] * 3  # and once
