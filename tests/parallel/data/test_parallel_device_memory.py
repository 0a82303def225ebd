"""What each device of nn.DataParallel holds: against numbers that are counted by hand."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.meter import ledger
from course_lib.parallel.data import DataParallel, memory_by_device

WIDTH, CLASSES, ROWS = 6, 5, 8
WEIGHTS = 4 * (WIDTH * WIDTH + WIDTH * CLASSES)  # bytes: two layers without biases


def trained(devices=4):
    """A model that has taken one step of AdamW, so that gradients and optimizer state exist."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH, bias=False), nn.Tanh(), nn.Linear(WIDTH, CLASSES, bias=False))
    optimizer = torch.optim.AdamW(model.parameters())
    x, y = torch.randn(ROWS, WIDTH), torch.arange(ROWS) % CLASSES
    F.cross_entropy(DataParallel(model, ["cpu"] * devices)(x), y).backward()
    optimizer.step()
    return model, optimizer, (x, y)


def held(rows=ROWS, devices=4):
    model, optimizer, (x, y) = trained(devices)
    return memory_by_device(model, optimizer, (x[:rows].clone(), y[:rows].clone()), F.cross_entropy, devices)


def test_other_devices_hold_weights_their_rows_and_their_activations():
    for r in (1, 2, 3):
        sizes = held()[f"device {r}"]
        assert sizes["parameter"] == WEIGHTS
        assert sizes["input"] == 4 * 2 * WIDTH
        assert sizes["activation"] == 4 * 2 * WIDTH  # what tanh returned: kept by it, and by the second layer
        assert sizes["gradient"] == sizes["optimizer state"] == 0
        assert sizes["other"] == 0, "its output has gone to device 0"


def test_device_0_holds_what_there_is_one_of():
    sizes = held()["device 0"]
    assert sizes["parameter"] == sizes["gradient"] == WEIGHTS
    assert sizes["optimizer state"] == 2 * WEIGHTS + 2 * 4  # two averages, and a step count for each weight
    assert sizes["input"] == ROWS * (4 * WIDTH + 8)
    assert sizes["other"] == 4 * ROWS * CLASSES + 4  # the gathered outputs and the loss
    of_the_loss = 4 * ROWS * CLASSES + 4  # log-probabilities, and the total weight of the rows
    assert sizes["activation"] == 4 * 2 * WIDTH + of_the_loss


def test_all_devices_together_have_all_rows():
    assert sum(sizes["activation"] for sizes in held(rows=7).values()) == 4 * 7 * WIDTH + 4 * 7 * CLASSES + 4


def test_a_device_without_rows_holds_nothing():
    sizes = held(rows=6)  # parts of two, two and two
    assert set(sizes) == {f"device {r}" for r in range(4)}
    assert sum(sizes["device 3"].values()) == 0
    assert sizes["device 2"]["input"] == 4 * 2 * WIDTH


def test_one_part_alone_leaves_all_to_device_0():
    sizes = held(rows=1)
    assert sizes["device 0"]["input"] == 4 * WIDTH + 8
    assert all(sum(sizes[f"device {r}"].values()) == 0 for r in (1, 2, 3))


def test_it_leaves_the_model_as_it_was():
    model, optimizer, batch = trained()
    before = ledger(model, optimizer).by_label
    gradients = [p.grad.clone() for p in model.parameters()]
    memory_by_device(model, optimizer, batch, F.cross_entropy, 4)
    assert ledger(model, optimizer).by_label == before
    assert all(torch.equal(p.grad, old) for p, old in zip(model.parameters(), gradients, strict=True))


@pytest.mark.parametrize("devices", [1, 0, -2])
def test_fewer_than_two_devices_are_refused(devices):
    model, optimizer, batch = trained()
    with pytest.raises(ValueError, match=f"num_devices is {devices}; .* take 2 or more"):
        memory_by_device(model, optimizer, batch, F.cross_entropy, devices)
