"""Data parallelism in one process: against one device on the whole batch, and against PyTorch's own on GPUs."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.parallel.data import (
    CopyCounter,
    DataParallel,
    gather,
    parallel_apply,
    replicate,
    scatter,
)

CPUS = ["cpu"] * 4


class Tied(nn.Module):
    """An embedding whose table is used twice, a frozen layer, and a layer that nobody calls."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(7, 6)
        self.frozen = nn.Linear(6, 6).requires_grad_(False)
        self.mixed = nn.Linear(6, 6, bias=False)
        self.unused = nn.Linear(2, 2)
        self.out = nn.Linear(6, 7)
        self.out.weight = self.table.weight

    def forward(self, tokens):
        x = torch.tanh(self.frozen(self.table(tokens)))
        return self.out(x + self.mixed(x))


def tied_model():
    torch.manual_seed(3)
    return Tied().double()


def tokens(rows, seed=0):
    draw = torch.Generator().manual_seed(seed)
    return torch.randint(0, 7, (rows, 5), generator=draw), torch.randint(0, 7, (rows, 5), generator=draw)


def gradients(model):
    return {name: None if p.grad is None else p.grad.clone() for name, p in model.named_parameters()}


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if value is None:
            assert found[name] is None, name
        else:
            torch.testing.assert_close(found[name], value, rtol=1e-10, atol=1e-12, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize("rows", [8, 5, 3, 1])
@pytest.mark.parametrize("num_replicas", [1, 2, 3, 4])
def test_output_and_gradients_are_those_of_one_device_on_the_whole_batch(num_replicas, rows):
    alone, model = tied_model(), tied_model()
    x, y = tokens(rows)
    expected = alone(x)
    F.cross_entropy(expected.transpose(1, 2), y).backward()
    found = DataParallel(model, ["cpu"] * num_replicas)(x)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
    F.cross_entropy(found.transpose(1, 2), y).backward()
    assert_same(gradients(model), gradients(alone))
    assert model.unused.weight.grad is None
    assert model.frozen.weight.grad is None


OPTIMIZERS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.3, momentum=0.9),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=0.05),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_weights_after_five_steps_of_uneven_batches(optimizer):
    alone, model = tied_model(), tied_model()
    wrapped = DataParallel(model, ["cpu"] * 3)
    for trained, forward in ((alone, alone), (model, wrapped)):
        update = OPTIMIZERS[optimizer](trained.parameters())
        for step, rows in enumerate([7, 6, 8, 2, 1]):
            x, y = tokens(rows, seed=step)
            update.zero_grad()
            F.cross_entropy(forward(x).transpose(1, 2), y).backward()
            update.step()
    assert_same(dict(model.named_parameters()), dict(alone.named_parameters()))


def test_the_gradient_of_the_input_and_of_a_second_backward():
    torch.manual_seed(0)
    alone = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).double()
    wrapped = DataParallel(copy.deepcopy(alone), ["cpu"] * 3)
    found = []
    for forward in (alone, wrapped):
        x = torch.linspace(-1, 1, 15, dtype=torch.float64).view(5, 3).requires_grad_()
        (slope,) = torch.autograd.grad(forward(x).sum(), x, create_graph=True)
        slope.square().sum().backward()
        found.append((slope.detach(), x.grad, [p.grad for p in forward.parameters()]))
    torch.testing.assert_close(found[1], found[0], rtol=1e-10, atol=1e-12)


def test_batch_norm_keeps_the_statistics_of_replica_0_and_loses_the_others():
    model = nn.BatchNorm1d(2).double()
    x = torch.arange(16.0, dtype=torch.float64).view(8, 2)
    first_part = copy.deepcopy(model)
    first_part(x[:2])
    buffers = {name: tensor.data_ptr() for name, tensor in model.named_buffers()}
    DataParallel(model, CPUS)(x)
    assert {name: tensor.data_ptr() for name, tensor in model.named_buffers()} == buffers
    assert_same(dict(model.named_buffers()), dict(first_part.named_buffers()))


def test_replicas_hold_memory_of_their_own_but_for_the_first():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    replicas = replicate(model, CPUS)
    for name in ("0.weight", "0.bias", "1.running_mean"):
        child, attribute = name.split(".")
        places = [getattr(replica[int(child)], attribute).data_ptr() for replica in replicas]
        assert len(set(places)) == 4, name
        assert places[0] == getattr(model[int(child)], attribute).data_ptr(), name
    assert list(replicas[1].parameters()) == []
    assert replicas[1][0].weight.grad_fn is not None


def test_bytes_of_a_step():
    """Weights go to three replicas, gradients come back from three; a shared table travels once."""
    model, (x, _) = tied_model(), tokens(8)
    weights = sum(p.nbytes for p in model.parameters())
    learning = sum(p.nbytes for p in model.parameters() if p.requires_grad) - 8 * (4 + 2)  # one layer is unused
    with CopyCounter() as copied:
        y = DataParallel(model, CPUS)(x)
    assert copied.size_bytes == 3 * weights + 3 / 4 * (x.nbytes + y.nbytes)
    with CopyCounter() as copied:
        y.sum().backward()
    assert copied.size_bytes == 3 * learning + 3 / 4 * y.nbytes
    with CopyCounter() as copied:
        x.double()  # a change of dtype goes nowhere
    assert (copied.size_bytes, copied.num_tensors) == (0, 0)


class Nested(nn.Module):
    def forward(self, batch, scale=1, *, shift=None):
        image, (label, note) = batch["image"], batch["rest"]
        return {"sum": image * scale + shift, "pair": (label, None), "note": label * len(note)}


def test_nested_inputs_keywords_and_outputs():
    image, label, shift = torch.arange(6.0).view(6, 1), torch.arange(6), torch.rand(6, 1)
    batch = {"image": image, "rest": (label, "abc")}
    found = DataParallel(Nested(), CPUS)(batch, 3, shift=shift)
    assert found["sum"].tolist() == (image * 3 + shift).tolist()
    assert found["pair"][0].tolist() == label.tolist()
    assert found["pair"][1] is None
    assert found["note"].tolist() == (3 * label).tolist()


def test_parts_are_those_of_chunk():
    sizes = {rows: [len(part) for part in scatter(torch.zeros(rows, 2), CPUS)] for rows in (32, 10, 6, 5, 2)}
    assert sizes == {32: [8] * 4, 10: [3, 3, 3, 1], 6: [2, 2, 2], 5: [2, 2, 1], 2: [1, 1]}
    assert [part.shape for part in scatter(torch.zeros(2, 8), CPUS, dim=1)] == [(2, 2)] * 4
    assert scatter(("no", 1), CPUS) == [("no", 1)]


def test_another_dim():
    torch.manual_seed(0)
    model = nn.LSTM(3, 4).double()
    x = torch.randn(5, 7, 3, dtype=torch.float64, requires_grad=True)  # (time, batch, features)
    expected, _ = model(x)
    found, (last, _) = DataParallel(model, ["cpu"] * 2, dim=1)(x)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
    slopes = [torch.autograd.grad(y.square().sum(), x)[0] for y in (found, expected)]
    torch.testing.assert_close(*slopes, rtol=1e-10, atol=1e-12)
    assert last.shape == (1, 7, 4)


def test_what_is_gathered_goes_back_in_the_sizes_it_came_in():
    parts = [torch.ones(rows, requires_grad=True) for rows in (1, 4, 2)]
    (gather(parts, "cpu") * torch.arange(7.0)).sum().backward()
    assert [part.grad.tolist() for part in parts] == [[0], [1, 2, 3, 4], [5, 6]]


def test_outputs_come_to_the_first_device_or_where_they_are_asked_to():
    assert DataParallel(nn.ReLU(), ["meta", "cpu"]).output_device.type == "meta"
    assert DataParallel(nn.ReLU(), CPUS, output_device="meta")(torch.ones(4)).device.type == "meta"


def test_a_module_that_is_used_twice_is_one_module_in_each_replica():
    twice = nn.ReLU()
    for replica in replicate(nn.Sequential(twice, nn.Sequential(twice)), ["cpu"] * 2):
        assert replica[0] is replica[1][0]
        assert replica[0] is not twice


def test_scalars_become_a_vector_and_a_warning():
    class Loss(nn.Module):
        def forward(self, x):
            return x.mean()

    x = torch.arange(10.0, requires_grad=True)
    with pytest.warns(UserWarning, match="vector"):
        losses = DataParallel(Loss(), CPUS)(x)
    with pytest.warns(UserWarning, match="vector"):
        assert DataParallel(Loss(), CPUS, dim=1)(torch.ones(2, 4)).tolist() == [1] * 4
    assert losses.tolist() == [1, 4, 7, 9]  # 3, 3, 3 and 1 numbers: their mean is not the batch's
    (losses * torch.tensor([3, 3, 3, 1]) / 10).sum().backward()
    assert x.grad.tolist() == pytest.approx([0.1] * 10)


def test_what_a_replica_sets_on_itself_is_lost_and_what_it_adds_to_a_buffer_stays():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.as_number = 0
            self.register_buffer("as_buffer", torch.zeros(()))

        def forward(self, x):
            self.as_number += 1
            self.as_buffer += len(x)
            return x

    model = Counting()
    DataParallel(model, CPUS)(torch.zeros(8))
    assert (model.as_number, model.as_buffer.item()) == (0, 2)


def test_keys_carry_a_prefix_and_the_module_inside_does_not():
    wrapped = DataParallel(nn.Linear(2, 1), CPUS)
    assert list(wrapped.state_dict()) == ["module.weight", "module.bias"]
    assert list(wrapped.module.state_dict()) == ["weight", "bias"]


class Returns(nn.Module):
    def __init__(self, make):
        super().__init__()
        self.make = make

    def forward(self, x):
        return self.make(x)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: scatter(torch.tensor(1.0), CPUS), "cannot all be cut along dim 0"),
        (lambda: scatter((torch.zeros(8), torch.zeros(1, 5)), CPUS), "differ along dim 0"),
        (lambda: scatter(torch.zeros(8), []), "at least one"),
        (lambda: DataParallel(nn.Linear(1, 1), "cpu"), "give a list"),
        (lambda: gather([], "cpu"), "no outputs"),
        (lambda: gather([torch.zeros(1), (torch.zeros(1),)], "cpu"), "replica 1 returned"),
        (lambda: DataParallel(Returns(float), CPUS)(torch.ones(4)), "returned float"),
        (lambda: parallel_apply([nn.ReLU()], []), "1 replicas, 0 inputs"),
        (lambda: DataParallel(nn.Linear(2, 2, device="meta"), CPUS)(torch.ones(4, 2)), "weight is on meta"),
    ],
)
def test_what_cannot_be_done_gets_a_sentence(make, words):
    with pytest.raises(ValueError, match=words):
        make()
