"""``Kept``: what an answer has changed of the things that it was given, in words."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from course_lib.learn.judging.mutation_guard import Kept


def model_of_three() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 2), nn.Dropout(), nn.BatchNorm1d(2))


def train_a_step(model, x, items):
    torch.manual_seed(0)  # or dropout may leave nothing of a feature, and its running mean where it was
    model(torch.arange(8.0).view(4, 2)).sum().backward()


CHANGES = [
    (lambda model, x, items: None, ""),
    (lambda model, x, items: model.eval(), "`model` was left in eval mode"),
    (lambda model, x, items: model[1].eval(), "'1' of `model` was left in eval mode"),
    (
        lambda model, x, items: model[0].requires_grad_(False),
        "'0.weight' of `model` was left with requires_grad=False",
    ),
    (
        lambda model, x, items: model[0].weight.data.zero_(),
        "'0.weight' of `model` has changed: at [0, 0]: it was ",
    ),
    (lambda model, x, items: setattr(model, "more", nn.Linear(1, 1)), "`model` has got "),
    (
        lambda model, x, items: model[1].register_forward_hook(print),
        "'1' of `model` was left with 1 more hook",
    ),
    (
        lambda model, x, items: model.register_state_dict_post_hook(lambda *_: None),
        "`model` was left with 1 more hook",
    ),
    (
        lambda model, x, items: setattr(model[2], "momentum", None),
        "'2.momentum' of `model` was left at None; it was 0.1",
    ),
    (lambda model, x, items: setattr(model, "losses", []), "`model` has got the attribute 'losses'"),
    (lambda model, x, items: setattr(x, "total", 1), "`x` has got the attribute 'total'"),
    (train_a_step, "'0.weight' of `model` has got a .grad"),
    (lambda model, x, items: x.zero_(), "`x` has changed: at [0]: it was 1.0 and is now 0.0; 2 more of 3"),
    (lambda model, x, items: x.requires_grad_(), "`x` was left with requires_grad=True"),
    (lambda model, x, items: items.append(1), "`items` had 3 items and has 4 now"),
    (lambda model, x, items: items[2].clear(), "`items`[2] had 1 items and has 0 now"),
    (lambda model, x, items: items.__setitem__(0, 2), "`items`[0] has changed: it was 1 and is now 2"),
]


@pytest.mark.parametrize(("change", "said"), CHANGES)
def test_the_first_change_is_named(change, said):
    model, x = model_of_three(), torch.ones(3)
    items = [1, x, {"a": 1.5}]
    kept = Kept(model=model, x=x, items=items)
    change(model, x, items)
    assert kept.changes().startswith(said)
    assert bool(kept.changes()) == bool(said)


@pytest.mark.parametrize(
    ("ignore", "said"),
    [
        (("gradients",), "'2.running_mean' of `model` has changed"),
        (("gradients", "buffers"), ""),
        (("buffers",), "'0.weight' of `model` has got a .grad"),
    ],
)
def test_what_may_change_is_left_out(ignore, said):
    model = model_of_three()
    kept = Kept(model=model, ignore=ignore)
    train_a_step(model, None, None)
    assert kept.changes().startswith(said)
    assert bool(kept.changes()) == bool(said)


def test_a_gradient_that_autograd_follows_is_told_where_gradients_may_change():
    model = model_of_three()
    train_a_step(model, None, None)
    kept = Kept(model=model, ignore=("gradients",))
    model[0].weight.grad.requires_grad_()
    assert kept.changes() == "the .grad of '0.weight' of `model` requires a gradient itself now"


def test_another_dtype_is_told_where_values_may_change():
    model = model_of_three()
    kept = Kept(model=model, ignore=("weights", "buffers"))
    model[0].bias.data = model[0].bias.data.double()
    assert kept.changes() == "'0.bias' of `model` was left in torch.float64; it was in torch.float32"


def test_a_hook_of_an_optimizer_is_counted():
    optimizer = torch.optim.SGD(model_of_three().parameters(), lr=0.1)
    kept = Kept(optimizer=optimizer)
    optimizer.register_step_post_hook(print)
    assert kept.changes() == "`optimizer` was left with 1 more hook"


def test_values_that_are_no_number_are_equal_to_themselves():
    x = torch.tensor([float("nan"), float("inf")])
    assert Kept(x=x, y=float("nan")).changes() == ""


def test_a_part_that_does_not_exist_is_named():
    with pytest.raises(ValueError, match="'grads' cannot be ignored; there is weights, gradients"):
        Kept(ignore=("grads",))


def test_a_leaf_that_gave_place_to_a_result_is_told():
    things = {"x": torch.ones(2, requires_grad=True)}
    kept = Kept(things=things)
    things["x"] = things["x"].clone()
    assert kept.changes() == "`things`['x'] is another tensor now"
