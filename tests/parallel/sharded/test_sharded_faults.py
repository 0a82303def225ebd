"""What goes wrong gets a sentence, nobody hangs, and what comes next works."""

from __future__ import annotations

import contextlib
import os
import signal

import pytest
import sharded_cases
import torch
from ddp_cases import message_of
from sharded_cases import odd, transformer
from torch import nn

from course_lib.cluster import Cluster, RankFailed
from course_lib.parallel.sharded import FullySharded

pytestmark = [
    pytest.mark.xdist_group("sharded"),
    pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning"),
]


def a_right_step(me, model):
    """The gradients of a step; afterwards no gradient is left."""
    x, y = (sharded_cases.own(me, t) for t in sharded_cases.odd_batch(me.world_size))
    sharded_cases.loss_of(model, x, y).backward()
    gradients = sharded_cases.whole_gradients(model)
    for p in model.parameters():
        p.grad = None
    return gradients


def assert_right(gradients, num_ranks: int) -> None:
    one = sharded_cases.alone(odd, num_ranks, 1)["gradients"]
    for name, gradient in gradients.items():
        if gradient is not None:
            torch.testing.assert_close(gradient, one[name], rtol=1e-10, atol=1e-13, msg=name)


def test_a_rank_killed_in_an_all_gather_is_named():
    def die(me):
        model = FullySharded(me, odd())
        if me.rank == 1:
            model.module.blocks[2].register_forward_pre_hook(lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        a_right_step(me, model)

    with Cluster(3, backend="gloo") as cluster:
        with pytest.raises(RankFailed, match=r"[Rr]ank 1") as failed:
            cluster.call(die, show=False)
        assert "SIGKILL" in str(failed.value)
        assert_right(cluster.call(lambda me: a_right_step(me, FullySharded(me, odd())), show=False)[0], 3)


def test_a_forward_and_a_backward_that_raise_leave_nothing(clusters):
    def run(me):
        model, told = FullySharded(me, odd()), []
        hook = model.module.blocks[2].register_forward_hook(lambda *_: 1 / 0)
        try:
            a_right_step(me, model)
        except ZeroDivisionError:
            told.append("forward")
        hook.remove()
        shapes = {tuple(p.shape) for p in model.module.parameters()} == {tuple(p.shape) for p in model.parameters()}

        class Raises(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()

            @staticmethod
            def backward(ctx, gradient):
                raise ZeroDivisionError

        hook = model.module.blocks[0].register_forward_hook(lambda m, i, o: Raises.apply(o))
        try:
            a_right_step(me, model)
        except ZeroDivisionError:
            told.append("backward")
        hook.remove()
        for p in model.parameters():
            p.grad = None
        return told, shapes, a_right_step(me, model)

    for told, shapes, gradients in clusters(2).call(run, show=False):
        assert told == ["forward", "backward"]
        assert shapes
        assert_right(gradients, 2)


@pytest.mark.parametrize("reshard", [True, 2])
def test_after_a_failed_backward_the_next_forward_asks_for_new_weights(clusters, reshard):
    """What was on its way for the failed one holds weights that may have changed since."""

    class Raises(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            raise ZeroDivisionError

    def run(me):
        model = FullySharded(me, odd(seed=5), reshard_after_forward=reshard)
        a_right_step(me, model)  # now it knows what comes next, and asks for it early
        hook = model.module.blocks[2].register_forward_hook(lambda m, i, o: Raises.apply(o))
        with contextlib.suppress(ZeroDivisionError):
            a_right_step(me, model)
        hook.remove()
        for p in model.parameters():
            p.grad = None
        model.load_full_state_dict(odd().state_dict())
        return a_right_step(me, model)

    for gradients in clusters(4).call(run, show=False):
        assert_right(gradients, 4)


def test_a_weight_changed_while_it_is_whole(clusters):
    class Clamps(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(5, 3)

        def forward(self, x):
            y = self.layer(x)
            with torch.no_grad():
                self.layer.weight.clamp_(-0.1, 0.1)
            return y

    def run(me):
        model = FullySharded(me, Clamps())
        message = message_of(lambda: model(torch.ones(2, 5)))
        return message, tuple(model.module.layer.weight.shape)

    for message, shape in clusters(2).call(run, show=False):
        assert "layer.weight was changed while it was whole, in the forward of the model itself" in message
        assert shape[0] < 3


@pytest.mark.parametrize(
    ("move", "said"),
    [
        (lambda m: m.float(), r"was torch.float64 on cpu .* is torch.float32 on"),
        (lambda m: m.to("meta"), "Something has replaced it"),
    ],
)
def test_a_model_that_is_moved_after_sharding(clusters, move, said):
    def run(me):
        model = FullySharded(me, odd())
        move(model)
        return message_of(lambda: model(torch.ones(2, 5, dtype=torch.float64)))

    import re

    for message in clusters(2).call(run, show=False):
        assert re.search(said, message)
        assert "Move and convert a model before you shard it." in message


def test_a_parameter_without_gradient(clusters):
    def run(me):
        model = FullySharded(me, odd(unused=True))
        return message_of(lambda: a_right_step(me, model)), a_right_step_of_used(me)

    def a_right_step_of_used(me):
        return a_right_step(me, FullySharded(me, odd()))

    for message, gradients in clusters(2).call(run, show=False):
        assert "extra.weight, extra.bias got no gradient in this backward" in message
        assert "find_unused_parameters=True" in message
        assert_right(gradients, 2)


def test_a_shard_of_another_world_size(clusters):
    def shard(me):
        return FullySharded(me, odd()).state_dict()

    state = clusters(3).call(shard, show=False)[0]

    def load(me):
        model = FullySharded(me, odd())
        return message_of(lambda: model.load_state_dict(state)), a_right_step(me, model)

    for message, gradients in clusters(2).call(load, show=False):
        assert "rows of" in message
        assert "it is a shard of another run. Save full_state_dict()" in message
        assert_right(gradients, 2)


def sentences(me):
    tied = transformer(tied=True)
    plain = transformer()
    number = nn.Sequential(nn.Linear(2, 2))
    number[0].scale = nn.Parameter(torch.tensor(1.0))
    mixed = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).double())
    return {
        "tied": message_of(lambda: FullySharded(me, tied, [tied.head, *tied.blocks])),
        "foreign": message_of(lambda: FullySharded(me, plain, [nn.Linear(2, 2)])),
        "twice": message_of(lambda: FullySharded(me, plain, [plain.head, plain.head])),
        "nothing": message_of(lambda: FullySharded(me, transformer().requires_grad_(False))),
        "number": message_of(lambda: FullySharded(me, number)),
        "mixed": message_of(lambda: FullySharded(me, mixed, [])),
        "prefetch": message_of(lambda: FullySharded(me, plain, prefetch=-1)),
        "wrapped": message_of(lambda: FullySharded(me, nn.Sequential(FullySharded(me, transformer())))),
        "works": message_of(lambda: FullySharded(me, plain)),
    }


def test_models_and_units_that_do_not_work(clusters):
    for said in clusters(2).call(sentences, show=False):
        assert "stem.tokens.weight and head.w_vocab.weight are one tied parameter in 2 units" in said["tied"]
        assert "units=[[model.stem.tokens, model.head.w_vocab], ...]" in said["tied"]
        assert "units has a Linear that is no part of the model" in said["foreign"]
        assert "the same" in said["twice"]
        assert "no parameter of this model requires a gradient" in said["nothing"]
        assert "a parameter of shape () has no rows" in said["number"]
        assert "torch.float32, torch.float64" in said["mixed"]
        assert "model.to(torch.float64)" in said["mixed"]
        assert "prefetch=-1" in said["prefetch"]
        assert "is a FullySharded already" in said["wrapped"]
        assert said["works"] == "nothing was raised"
