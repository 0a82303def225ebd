"""A model cut by layers learns as the uncut model does, and as PyTorch's own pipelining does."""

from __future__ import annotations

import functools

import pytest
import torch
import torch.nn.functional as F
from models_to_cut import batches, gradients_of, loss_of_kind, make

from course_lib.parallel.model import ModelParallel, OnDevices, cut, parameter_costs, split_evenly

pytestmark = pytest.mark.xdist_group("model_parallel")

OPTIMIZERS = {
    "momentum": functools.partial(torch.optim.SGD, lr=0.1, momentum=0.9),
    "adamw": functools.partial(torch.optim.AdamW, lr=0.01),
}


def uncut(kind, optimizer_name):
    """Losses, gradients of the last step, and the state after five steps, on one device."""
    model, loss_of = make(kind), loss_of_kind(kind)
    optimizer = OPTIMIZERS[optimizer_name](model.parameters())
    losses = []
    for x, y in batches(kind):
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, gradients_of(model), model.state_dict()


def cut_and_trained(me, kind, optimizer_name, by_hand):
    model = make(kind)
    model = ModelParallel(me, cut(model, split_evenly(parameter_costs(model), me.world_size)))
    trained, loss_of, losses = [p for p in model.parameters() if p.requires_grad], loss_of_kind(kind), []
    optimizer = OPTIMIZERS[optimizer_name](trained) if trained else None
    for x, y in batches(kind):
        model.zero_grad()
        x, y = x if model.is_first else None, y if model.is_last else None
        if by_hand:
            loss = model.forward_backward(x, y, loss_of)
        else:
            loss = model.loss(loss_of, model(x), y)
            loss.backward()
        model.sum_tied_gradients()
        if optimizer:
            optimizer.step()
        losses.append(loss.item() if model.is_last else None)
    return losses, gradients_of(model.part), dict(model.part.state_dict())


@pytest.mark.first_cases(6)
@pytest.mark.parametrize("by_hand", [True, False], ids=["by hand", "by autograd"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
@pytest.mark.parametrize("kind", ["cnn", "tied text", "frozen text", "shared"])
def test_cut_in_parts_it_learns_as_the_uncut_model_does(clusters, kind, world_size, optimizer, by_hand):
    losses, gradients, state = uncut(kind, optimizer)
    run = clusters(world_size).run(cut_and_trained, kind, optimizer, by_hand)
    assert run[world_size - 1][0] == pytest.approx(losses, abs=1e-10)
    got_gradients, got_state = {}, {}
    for _, its_gradients, its_state in run:
        assert not its_state.keys() & got_state.keys()
        got_gradients |= its_gradients
        got_state |= its_state
    assert got_state.keys() == state.keys()
    assert got_gradients.keys() == gradients.keys()
    for want, got in ((gradients, got_gradients), (state, got_state)):
        for name in want:
            torch.testing.assert_close(got[name], want[name], rtol=0, atol=1e-10)
    for copies in (("stem.tokens.weight", "head.w_vocab.weight"), ("0.weight", "2.weight", "3.weight")):
        if kind in ("tied text", "shared") and copies[0] in got_state:  # equal to the last bit
            assert all(torch.equal(got_state[copies[0]], got_state[copy]) for copy in copies)


def accumulated(me, by_hand, clear):
    """Gradients of two batches, summed over copies after each of them; before the second pair they are cleared."""
    model, loss_of = make("tied text"), loss_of_kind("tied text")
    model = ModelParallel(me, cut(model, split_evenly(parameter_costs(model), me.world_size)))
    for _ in range(2):
        if clear == "zeros":
            model.zero_grad(set_to_none=False)
        for x, y in list(batches("tied text"))[:2]:
            x, y = x if model.is_first else None, y if model.is_last else None
            if by_hand:
                if clear == "none":
                    model.zero_grad()
                model.forward_backward(x, y, loss_of)
            else:
                loss = model.loss(loss_of, model(x), y)
                if clear == "none":
                    model.zero_grad()
                loss.backward()
            model.sum_tied_gradients()
            model.sum_tied_gradients()  # nothing has come since
    return gradients_of(model.part)


@pytest.mark.parametrize("by_hand", [True, False], ids=["by hand", "by autograd"])
@pytest.mark.parametrize("clear", ["zeros", "none"])
def test_tied_gradients_of_several_backwards_are_summed_once(cluster2, by_hand, clear):
    model, loss_of = make("tied text"), loss_of_kind("tied text")
    for x, y in list(batches("tied text"))[:2]:
        if clear == "none":
            model.zero_grad()
        loss_of(model(x), y).backward()
    wanted = gradients_of(model)
    for found in cluster2.call(accumulated, (by_hand, clear)):
        for name, gradient in found.items():
            torch.testing.assert_close(gradient, wanted[name], rtol=0, atol=1e-10)


@pytest.mark.first_cases(6)
@pytest.mark.parametrize("kind", ["cnn", "linear", "tied text"])
@pytest.mark.parametrize("num_parts", [1, 2, 3, 4])
def test_moved_from_device_to_device_it_is_the_same_model(kind, num_parts):
    losses, gradients, state = uncut(kind, "adamw")
    whole = make(kind)
    model = OnDevices(cut(whole, split_evenly(parameter_costs(whole), num_parts)), ["cpu"] * num_parts)
    optimizer, loss_of = OPTIMIZERS["adamw"](model.parameters()), loss_of_kind(kind)
    got = []
    for x, y in batches(kind):
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()
        got.append(loss.item())
    assert got == pytest.approx(losses, abs=1e-10)
    for name, tensor in gradients_of(whole).items():
        torch.testing.assert_close(tensor, gradients[name], rtol=0, atol=1e-10)
    for name, tensor in whole.state_dict().items():
        torch.testing.assert_close(tensor, state[name], rtol=0, atol=1e-10)


def test_parts_lie_on_the_devices_that_were_named():
    model = OnDevices(cut(make("linear"), [range(0, 2), range(2, 4)]), ["cpu", "meta"])
    assert [next(part.parameters()).device.type for part in model.parts] == ["cpu", "meta"]
    assert model(torch.ones(2, 6, dtype=torch.float64)).device.type == "meta"


def beside_torch(me):
    """Gradients of ours and of torch.distributed.pipelining, with one micro-batch."""
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    (x, y), *_ = batches("cnn")
    found = []
    for theirs in (False, True):
        part = cut(make("cnn"), split_evenly(parameter_costs(make("cnn")), me.world_size))[me.rank].to(me.device)
        if theirs:
            stage = PipelineStage(part, me.rank, me.world_size, me.device)
            schedule = ScheduleGPipe(stage, n_microbatches=1, loss_fn=F.cross_entropy)
            losses = []
            args = (x.to(me.device),) if me.rank == 0 else ()
            is_last = me.rank == me.world_size - 1
            schedule.step(*args, target=y.to(me.device) if is_last else None, losses=losses)
        else:
            parts = cut(make("cnn"), split_evenly(parameter_costs(make("cnn")), me.world_size))
            parts[me.rank] = part
            ModelParallel(me, parts).forward_backward(x, y, F.cross_entropy)
        found.append(gradients_of(part))
    return found


@pytest.mark.filterwarnings("ignore")
def test_gradients_are_those_of_torch_distributed_pipelining(clusters):
    for ours, theirs in clusters(4).run(beside_torch):
        assert ours.keys() == theirs.keys()
        for name, tensor in theirs.items():
            torch.testing.assert_close(ours[name], tensor, rtol=0, atol=1e-12)
