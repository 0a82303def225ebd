"""A stage without messages: its gradients, and what it says when it is used in another order."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from course_lib.parallel.pipeline import RowStage

SHAPE = (2, 3)
mse = nn.functional.mse_loss


def stages():
    torch.manual_seed(0)
    return [nn.Sequential(nn.Linear(3, 3), nn.Tanh()).double() for _ in range(2)]


def batch(num_samples=6):
    made = torch.Generator().manual_seed(1)
    x, y = (torch.randn(num_samples, 3, generator=made, dtype=torch.float64) for _ in range(2))
    return x, y


def on(rank, num_micro_batches=3, world_size=2):
    me = SimpleNamespace(rank=rank, world_size=world_size, device=torch.device("cpu"))
    return RowStage(me, stages(), batch(), num_micro_batches, mse, SHAPE)


def test_two_stages_by_hand_find_the_gradients_of_the_uncut_model():
    first, last = on(0), on(1)
    sent = [first.forward(i) for i in range(3)]
    assert first.in_flight == [0, 1, 2]
    for i in (1, 0, 2):
        room = last.room()
        room.copy_(sent[i])
        last.forward(i, room)
        assert first.backward(i, last.backward(i)) is None
    assert (first.in_flight, last.in_flight) == ([], [])
    whole = stages()
    loss = mse(nn.Sequential(*whole)(batch()[0]), batch()[1])
    loss.backward()
    for stage, right in zip((first, last), whole, strict=True):
        for mine, its in zip(stage.module.parameters(), right.parameters(), strict=True):
            torch.testing.assert_close(mine.grad, its.grad, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(torch.stack(last.losses).sum(), loss.detach(), rtol=1e-12, atol=0)


def test_room_is_new_each_time_and_of_the_models_dtype():
    stage = on(0)
    assert stage.room().data_ptr() != (other := stage.room()).data_ptr() or other.numel() == 0
    assert (tuple(other.shape), other.dtype) == (SHAPE, torch.float64)


def test_what_goes_out_can_be_sent_as_it_is():
    """A layer may leave a view behind that is not contiguous; a message needs it to be."""

    class Transposed(nn.Module):
        def forward(self, x):
            return x.t().contiguous().t() * 2

    for rank in (0, 1):
        me = SimpleNamespace(rank=rank, world_size=3, device=torch.device("cpu"))
        stage = RowStage(me, [Transposed(), Transposed(), nn.Identity()], batch(2), 1, mse, SHAPE)
        arrived = torch.ones(SHAPE, dtype=torch.float64)
        assert stage.forward(0, arrived if rank else None).is_contiguous()
        sent_back = stage.backward(0, arrived)
        assert sent_back is None or sent_back.is_contiguous()


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (lambda: on(0).backward(1), r"backward\(1\) was called before forward\(1\)"),
        (lambda: on(1).forward(0), r"forward\(0, \.\.\.\) got None, and it needs activations"),
        (lambda: on(0, num_micro_batches=4), "4 micro-batches do not divide 6 samples"),
        (lambda: on(0, num_micro_batches=0), "0 micro-batches do not divide 6 samples"),
        (lambda: on(0, world_size=3), "3 ranks got 2 stages"),
    ],
)
def test_other_use_gets_a_sentence(use, said):
    with pytest.raises(ValueError, match=said):
        use()


def test_a_missing_gradient_gets_a_sentence_and_nothing_is_lost():
    stage = on(0)
    stage.forward(0)
    with pytest.raises(ValueError, match="needs a gradient from a neighbour"):
        stage.backward(0)
    assert stage.in_flight == [0]
