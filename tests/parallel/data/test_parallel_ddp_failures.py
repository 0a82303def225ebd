"""DDP from scratch when something goes wrong: a backward that raises, misuse told in a sentence, wrapping twice."""

from __future__ import annotations

import pytest
import torch
from ddp_cases import Branches, gradients, message_of, wrapped_twice, x_of
from planted import Fails
from torch import nn
from torch.utils.checkpoint import checkpoint

from course_lib.cluster import RankFailed
from course_lib.parallel.data import DistributedDataParallel, global_mean

pytestmark = pytest.mark.xdist_group("parallel_ddp")


def after_a_failure(me, overlap: bool) -> dict:
    """Buckets: c, b, a. The first failure leaves one on its way, the second one that is full but waits its turn."""
    ours, theirs = wrapped_twice(me, Branches(), overlap=overlap)
    x, said = x_of(me), {}
    inner = ours.module
    said["first"] = message_of(lambda: inner.c(Fails.apply(ours(x, "ab"))).square().sum().backward())
    said["on their way"] = len(ours._in_flight)
    said["second"] = message_of(lambda: inner.b(Fails.apply(ours(x, "a"))).square().sum().backward())
    said["dropped"] = inner.c.weight.grad is None  # a mean of which the step knows nothing
    said["no forward"] = message_of(lambda: inner(x, "ca").square().sum().backward())
    for ddp in (ours, theirs):
        ddp.zero_grad()
        ddp(x_of(me, 1), "abc").square().sum().backward()
    return {**said, "ours": gradients(ours), "theirs": gradients(theirs)}


@pytest.mark.parametrize("overlap", [True, False])
def test_after_a_backward_that_raised_the_next_forward_starts_clean(two, overlap):
    for said in two.call(after_a_failure, (overlap,)):
        assert said["first"] == said["second"] == "planted"
        assert said["on their way"] == int(overlap)
        assert said["dropped"] is overlap
        assert "came without a forward" in said["no forward"]
        assert torch.allclose(torch.tensor(said["ours"]), torch.tensor(said["theirs"]), atol=1e-12)


def misuse(me) -> dict[str, str]:
    ddp = DistributedDataParallel(me, Branches())
    x = x_of(me)
    loss = ddp(x, "abc").square().sum()
    loss.backward(retain_graph=True)
    said = {"twice": message_of(lambda: loss.backward())}
    said["past"] = message_of(lambda: ddp.module(x, "abc").sum().backward())
    other = DistributedDataParallel(me, ddp.module)
    said["two wrappers"] = message_of(lambda: other(x, "abc").square().sum().backward())
    del other
    said["create_graph"] = message_of(lambda: ddp(x, "abc").square().sum().backward(create_graph=True))
    said["the wrong way round"] = message_of(lambda: DistributedDataParallel(Branches(), me))
    said["nothing"] = message_of(lambda: DistributedDataParallel(me, Branches().requires_grad_(False)))
    said["sizes"] = message_of(lambda: DistributedDataParallel(me, Branches(), bucket_size_bytes=-1))
    said["items"] = message_of(lambda: global_mean(me, x.sum(), 0))
    other = nn.Linear(3, 3 + me.rank) if me.rank else nn.Linear(3, 3)
    said["models"] = message_of(lambda: DistributedDataParallel(me, other))
    said["more"] = message_of(lambda: DistributedDataParallel(me, nn.Sequential(*[nn.Linear(1, 1)] * (1 + me.rank))))
    ddp.zero_grad()
    said["clean"] = message_of(lambda: ddp(x, "abc").square().sum().backward())
    return said


def test_misuse_is_told_in_a_sentence(two):
    for said in two.call(misuse):
        for way in ("twice", "past"):
            assert "came without a forward of this wrapper before it" in said[way]
        assert "a gradient of c.weight" in said["twice"]
        assert "wrap a model once" in said["two wrappers"]
        assert "a rank, then a model; module is a Rank" in said["the wrong way round"]
        assert "create_graph=True) does not work" in said["create_graph"]
        assert "there is nothing to average" in said["nothing"]
        assert "bucket_size_bytes=-1 does not work" in said["sizes"]
        assert "num_items is 0 on every rank" in said["items"]
        assert "rank 0 has weight (3, 3) torch.float32, trained where rank 1 has weight (4, 3)" in said["models"]
        assert said["clean"] == "nothing was raised"
    with pytest.raises(RankFailed, match="num_items=-1 does not work"):
        two.call(lambda me: global_mean(me, torch.zeros(()), -1), show=False)


def two_forwards(me) -> tuple[list, list]:
    ours, theirs = wrapped_twice(me, Branches())
    for ddp in (ours, theirs):
        (ddp(x_of(me, 0), "abc").square().sum() + ddp(x_of(me, 1), "cab").sum()).backward()
    return gradients(ours), gradients(theirs)


def test_two_forwards_and_one_backward_are_averaged_once(two):
    for ours, theirs in two.call(two_forwards):
        assert torch.allclose(torch.tensor(ours), torch.tensor(theirs), atol=1e-12)


def wrapped_again(me) -> tuple[list, list]:
    """As when a cell is run twice; and the model alone, once the last wrapper is gone."""
    model = Branches()
    ddp = DistributedDataParallel(me, model)
    ddp = DistributedDataParallel(me, model)
    ddp(x_of(me), "abc").sum().backward()
    averaged = gradients(model)
    del ddp
    model.zero_grad()
    model(x_of(me), "abc").sum().backward()
    return averaged, gradients(model)


def test_a_model_can_be_wrapped_anew_and_outlives_its_wrapper(two):
    (averaged, alone), (averaged_1, alone_1) = two.call(wrapped_again)
    assert averaged == averaged_1
    assert alone != alone_1


class Checkpointed(nn.Module):
    """Two layers, the first or the second of them under checkpointing."""

    def __init__(self, first: bool) -> None:
        super().__init__()
        self.a, self.b, self.first = nn.Linear(3, 3).double(), nn.Linear(3, 3).double(), first

    def forward(self, x, use_reentrant):
        def again(layer, x):
            return checkpoint(layer, x, use_reentrant=use_reentrant)

        x = x.requires_grad_()
        return self.b(again(self.a, x)) if self.first else again(self.b, self.a(x))


def reentrant(me, first: bool, find_unused: bool) -> tuple[str, list, list]:
    ours, theirs = wrapped_twice(me, Checkpointed(first), find_unused_parameters=find_unused)
    said = message_of(lambda: ours(x_of(me), use_reentrant=True).square().sum().backward())
    for ddp in (ours, theirs):
        ddp.zero_grad()
        ddp(x_of(me), use_reentrant=False).square().sum().backward()
    return said, gradients(ours), gradients(theirs)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("find_unused", [True, False])
def test_reentrant_checkpointing_is_told_as_what_it_is(two, first, find_unused):
    for said, ours, theirs in two.call(reentrant, (first, find_unused)):
        assert "backward within a backward" in said
        assert "use_reentrant=False" in said
        for a, b in zip(ours, theirs, strict=True):
            assert torch.allclose(torch.tensor(a), torch.tensor(b), atol=1e-12)  # and the next step is clean


def sparse(me) -> dict[str, str]:
    """Sparse gradients by a layer that says so, in time; and by a function, when they come."""
    layer = nn.Sequential(nn.Embedding(4, 3, sparse=True), nn.Linear(3, 3))
    said = {"layer": message_of(lambda: DistributedDataParallel(me, layer))}
    layer[0].sparse = False
    ddp = DistributedDataParallel(me, layer)
    layer[0].sparse = True
    tokens = torch.tensor([1, 2])
    said["later"] = message_of(lambda: ddp(tokens).sum().backward())
    layer[0].sparse = False
    ddp.zero_grad()
    said["clean"] = message_of(lambda: ddp(tokens).sum().backward())
    frozen = nn.Sequential(nn.Embedding(4, 3, sparse=True).requires_grad_(False), nn.Linear(3, 3))
    said["frozen"] = message_of(lambda: DistributedDataParallel(me, frozen)(tokens).sum().backward())
    return said


def test_sparse_gradients_are_refused_by_name_on_every_rank(two):
    for said in two.call(sparse):
        assert "'0' of this model gives sparse gradients" in said["layer"]
        assert "sparse=False" in said["layer"]
        assert "the gradient of 0.weight is sparse" in said["later"]
        assert said["clean"] == said["frozen"] == "nothing was raised"


def replaced(me, find_unused: bool) -> tuple[str, str]:
    def backward_of(ddp) -> str:
        return message_of(lambda: ddp(x_of(me), "abc").square().sum().backward())

    ddp = DistributedDataParallel(me, Branches(), find_unused_parameters=find_unused)
    model = ddp.module
    model.b.weight = nn.Parameter(model.b.weight.detach().clone())
    said = backward_of(ddp)
    del ddp
    again = DistributedDataParallel(me, model, find_unused_parameters=find_unused)
    return said, backward_of(again)


@pytest.mark.parametrize("find_unused", [True, False])
def test_a_parameter_replaced_after_wrapping_is_told_by_name(two, find_unused):
    for said, again in two.call(replaced, (find_unused,)):
        assert "b.weight was replaced after the model was wrapped" in said
        assert "wrap the model again" in said
        assert again == "nothing was raised"
