"""DDP from scratch with weights that are awkward to send: as one process trains them, or a sentence."""

from __future__ import annotations

import awkward_weights
import pytest
import torch
from awkward_weights import ALIASED, ODD, STRIDED
from ddp_cases import Branches, message_of, x_of
from torch import nn

from course_lib.parallel.data import (
    DistributedDataParallel,
    all_reduce_buckets,
    all_reduce_gradients,
    assign_buckets,
    broadcast_parameters,
)

pytestmark = pytest.mark.xdist_group("parallel_ddp")

NUM_STEPS, NUM_ROWS = 3, 4
REFUSED = {
    "ddp": {
        "sparse": "'rows' of this model gives sparse gradients",
        "lazy": "0.weight has no shape yet: call the model once",
        "expanded": r"a is expanded, \(5, 4\) with strides \(0, 1\)",
    },
    "naive": {"lazy": "uninitialized", "expanded": "more than one element"},
    "buckets": {
        "sparse": "a gradient is sparse",
        "lazy": "uninitialized",
        "expanded": "more than one element",
    },
}


def trained(model: nn.Module, x: torch.Tensor, forward=None, average=lambda: None) -> nn.Module:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(NUM_STEPS):
        optimizer.zero_grad()
        awkward_weights.loss_of(forward or model, x).backward()
        average()
        optimizer.step()
    return model


def on_ranks(me, name: str, way: str) -> dict:
    """The largest difference to one process, and whether layouts stayed; or what was said."""
    whole = awkward_weights.batch(name, NUM_ROWS * me.world_size)
    model, found = awkward_weights.make(name, seed=me.rank), {}

    def train() -> None:
        x, before = (
            whole.chunk(me.world_size)[me.rank],
            {} if name == "lazy" else awkward_weights.layout(model),
        )
        if way == "ddp":
            trained(model, x, DistributedDataParallel(me, model))
        elif way == "naive":
            broadcast_parameters(me, model)
            trained(model, x, average=lambda: all_reduce_gradients(me, model))
        else:
            broadcast_parameters(me, model)
            buckets = assign_buckets(model.parameters())
            trained(model, x, average=lambda: all_reduce_buckets(me, buckets))
        alone = dict(trained(awkward_weights.make(name), whole).named_parameters())
        off = [(p.detach() - alone[key].detach()).abs() for key, p in model.named_parameters()]
        found["off"] = max((each.max().item() for each in off if each.numel()), default=0.0)
        found["same layout"] = awkward_weights.layout(model) == before

    found["said"] = message_of(train)
    return found


def all_of(me, way: str) -> dict[str, dict]:
    return {name: on_ranks(me, name, way) for name in (*STRIDED, *ODD, *ALIASED)}


@pytest.mark.parametrize("way", REFUSED)
def test_awkward_weights_train_as_in_one_process_or_are_refused(two, way):
    """Gaps between the numbers of a weight: gloo sends, and writes to, what lies there, without a word."""
    for found in two.call(all_of, (way,)):
        for name, one in found.items():
            if name in REFUSED[way]:
                with pytest.raises(ValueError, match=REFUSED[way][name]):
                    raise ValueError(one["said"])
                continue
            assert one["said"] == "nothing was raised", name
            assert one["off"] < (1e-5 if name == "mixed_dtypes" else 1e-10), name
            assert one["same layout"], name


def changed_after_wrapping(me) -> dict[str, str]:
    """Parameters that come, go or begin to train when nobody asks any more; each is told, and a new wrapper works."""

    def replace_all(model):
        model.load_state_dict({k: v.clone() for k, v in model.state_dict().items()}, assign=True)

    def add(model):
        model.d = nn.Linear(3, 3, bias=False).double()

    changes = {"assigned": replace_all, "added": add, "unfrozen": lambda model: model.requires_grad_(True)}
    said = {}
    for kind, change in changes.items():
        model = Branches()
        model.a.requires_grad_(kind != "unfrozen")
        ddp = DistributedDataParallel(me, model)
        names = "abcd" if kind == "added" else "abc"
        change(model)
        x = x_of(me)
        said[kind] = message_of(lambda ddp=ddp, names=names, x=x: ddp(x, names).sum().backward())
        with torch.no_grad():
            said[kind, "evaluated"] = message_of(lambda ddp=ddp, names=names, x=x: ddp(x, names))
        again = DistributedDataParallel(me, model)
        said[kind, "again"] = message_of(lambda again=again, names=names, x=x: again(x, names).sum().backward())
    model = Branches()
    ddp = DistributedDataParallel(me, model, find_unused_parameters=True)
    model.a.requires_grad_(False)
    said["frozen later"] = message_of(lambda: ddp(x_of(me), "abc").sum().backward())
    return said


def test_parameters_that_nobody_averages_are_told(two):
    for said in two.call(changed_after_wrapping):
        assert "a.weight, b.weight, c.weight was replaced after the model was wrapped" in said.pop("assigned")
        assert "d.weight requires a gradient, and was missing or frozen when the model was wrapped" in said.pop("added")
        assert "a.weight requires a gradient, and was missing or frozen" in said.pop("unfrozen")
        assert set(said.values()) == {"nothing was raised"}, said


def wrapped_for_one_step(me) -> tuple[list, list]:
    """Gradients by a wrapper that nobody keeps, and by one that is kept; outputs nested as models have them."""

    class Nested(Branches):
        def forward(self, x, names):
            return {"logits": (super().forward(x, names), None)}

    found = []
    for keeps in (False, True):
        torch.manual_seed(0)
        model, kept = Nested(), []
        if keeps:
            kept.append(DistributedDataParallel(me, model))
            output = kept[0](x_of(me), "abc")
        else:
            output = DistributedDataParallel(me, model)(x_of(me), "abc")
        output["logits"][0].square().sum().backward()
        found.append([p.grad.tolist() for p in model.parameters()])
    return tuple(found)


def test_a_wrapper_lives_until_the_backward_of_its_forward(two):
    (passing, kept), (passing_1, _) = two.call(wrapped_for_one_step)
    assert passing == passing_1 == kept
