"""Between two uses a sharded model says what its parameters are, and refuses to compute with a rank's rows of them."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import sharded_cases
import torch
import torch.nn.functional as F
from ddp_cases import message_of
from sharded_cases import odd, transformer
from torch import nn
from torch.optim import optimizer as torchs_optimizer

from course_lib.parallel.sharded import FullySharded, clip_gradients, unsharded

pytestmark = [
    pytest.mark.xdist_group("sharded"),
    pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning"),
]


def two_layers() -> nn.Module:
    """A unit with two layers, (6, 4) and (5, 6), and one with a table of 7 rows."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 5)), nn.Embedding(7, 4)).double()


def uses_of_a_part(me):
    model = FullySharded(me, two_layers())
    (_, last), table = model.module
    x = torch.ones(2, 6, dtype=torch.float64)
    with torch.no_grad():  # as somebody's own generate() has it
        told = {
            "layer": message_of(lambda: last(x)),
            "functional": message_of(lambda: F.linear(x, last.weight)),
            "keyword": message_of(lambda: F.linear(x, weight=last.weight)),
            "matmul": message_of(lambda: x @ last.weight.T),
            "scaled": message_of(lambda: x[:, :5] * last.bias),
            "sum": message_of(lambda: last.weight.sum()),
            "in place": message_of(lambda: nn.init.normal_(last.weight)),
            "stacked": message_of(lambda: torch.cat([last.bias, last.bias])),
            "data": message_of(lambda: last.weight.data),
            "optimizer": message_of(lambda: torch.optim.SGD([last.weight])),
            "iterated": message_of(lambda: list(last.weight)),
            "tied by hand": message_of(lambda: F.linear(torch.ones(1, 4).double(), table.weight)),
        }
        right = torch.equal(model.module[0](torch.ones(2, 4).double()), two_layers()[0](torch.ones(2, 4).double()))
        with unsharded(model) as plain:
            told["whole"] = plain[0][1](x).shape[1]
    return told, right


@pytest.mark.long
def test_a_part_of_a_unit_used_alone_is_refused_by_name(clusters):
    for told, unit_is_right in clusters(2).call(uses_of_a_part, show=False):
        assert told.pop("whole") == 5
        assert unit_is_right
        for what, said in told.items():
            name = "0.1.bias" if what in ("scaled",) else "1.weight" if what == "tied by hand" else "0.1.weight"
            if what != "stacked":
                assert said.startswith(f"{name} is at rest: this rank keeps"), (what, said)
                assert f"only while its unit, {name[0]}, computes" in said
            assert "Call the model, or the unit, and not a part of it; or enter `with unsharded(model):`" in said
        assert "linear would compute with these rows alone" in told["layer"]
        assert "of its shape (5, 6)" in told["layer"]


def what_is_told(me):
    model = FullySharded(me, two_layers(), find_unused_parameters=True)
    last = model.module[0][1]
    shard = dict(model.named_parameters())["module.0.1.weight"]
    model.module[0](torch.ones(2, 4).double()).sum().backward()
    return {
        "shape": tuple(last.weight.shape) == tuple(shard.shape) == (last.weight.size(0), 6),
        "rows": len(last.weight) == len(shard),
        "count": last.weight.numel() == shard.numel(),
        "dtype": (last.weight.dtype, last.weight.device) == (shard.dtype, shard.device),
        "gradient": last.weight.grad is shard.grad,
        "one": last.weight is last.weight and isinstance(last.weight, nn.Parameter),
        "said": "0.1.weight is at rest" in repr(last.weight),
        "walked": [type(p).__name__ for p in last.parameters()] == ["WeightShard", "WeightShard"],
        "state": torch.equal(last.state_dict()["weight"], shard.detach()),
        "frozen": (last.weight.requires_grad_(False), shard.requires_grad)[1] is False,
    }


def test_what_a_weight_at_rest_is_can_be_asked(clusters):
    for found in clusters(2).call(what_is_told, show=False):
        assert [what for what, is_so in found.items() if not is_so] == []


def copies(me):
    model = FullySharded(me, odd())
    told = [
        message_of(lambda: copy.copy(model)),
        message_of(lambda: copy.deepcopy(model)),
        message_of(lambda: copy.deepcopy(model.module)),
        message_of(lambda: copy.deepcopy(model.module.blocks[0][0])),
        message_of(lambda: pickle.dumps(model)),
        message_of(lambda: torch.save(model, io.BytesIO())),
        message_of(lambda: torch.optim.swa_utils.AveragedModel(model)),
    ]
    of_weight = message_of(lambda: copy.deepcopy(model.module.last.weight))
    second = FullySharded(me, odd(seed=5))
    second.load_full_state_dict(model.full_state_dict())
    averages = [copy.deepcopy(p.detach()) for p in model.parameters()]
    x = sharded_cases.own(me, sharded_cases.odd_batch(me.world_size)[0])
    return told, of_weight, torch.equal(model(x), second(x)) and len(averages) > 0


def test_copies_and_files_of_the_model_itself_are_refused(clusters):
    for told, of_weight, the_other_way in clusters(2).call(copies, show=False):
        for said in told:
            assert said.startswith("a sharded model cannot be copied or pickled")
            assert "load_full_state_dict(first.full_state_dict())" in said
        assert "last.weight is at rest" in of_weight
        assert the_other_way


def clips(me):
    model, plain = FullySharded(me, transformer()), transformer()
    x, y = sharded_cases.token_batch(me.world_size)
    sharded_cases.loss_of(model, sharded_cases.own(me, x), sharded_cases.own(me, y)).backward()
    sharded_cases.loss_of(plain, x, y).backward()
    shards = list(model.parameters())
    before = [p.grad.clone() for p in shards]
    told = [
        message_of(lambda: nn.utils.clip_grad_norm_(model.parameters(), 0.1)),
        message_of(lambda: nn.utils.clip_grad_norm_(shards, 0.1, foreach=False)),
        message_of(lambda: nn.utils.clip_grad_norm_(shards[0], 0.1)),
        message_of(lambda: nn.utils.clip_grad_norm_([model.module.head.norm.weight], 0.1)),
    ]
    untouched = all(torch.equal(p.grad, b) for p, b in zip(shards, before, strict=True))
    rows_norm = nn.utils.get_total_norm([p.grad for p in shards])
    nn.utils.clip_grad_value_(shards, 1.0)  # number by number: right on rows
    norms = clip_gradients(model, 0.1).item(), nn.utils.clip_grad_norm_(plain.parameters(), 0.1).item()
    return told, untouched, rows_norm.item(), norms


def test_pytorchs_clip_is_refused_and_the_courses_is_right(clusters):
    run = clusters(2).call(clips, show=False)
    for told, untouched, _, (norm, expected) in run:
        for said in told:
            assert said.startswith("torch.nn.utils.clip_grad_norm_ would clip by the norm of this rank's rows")
            assert "Use clip_gradients(model, max_norm)" in said
        assert untouched
        assert norm == pytest.approx(expected, rel=1e-12)
    assert sum(rows**2 for _, _, rows, _ in run) ** 0.5 == pytest.approx(run[0][3][0], rel=1e-12)


def by_optimizer(me):
    """Steps of PyTorch's own optimizers, one number or many parameters at a time: rows as in one process."""
    differ = {}
    for name, make in {
        "foreach": lambda p: torch.optim.AdamW(p, lr=0.01, foreach=True),
        "fused": lambda p: torch.optim.AdamW(p, lr=0.01, fused=True),
        "chosen": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, weight_decay=0.1, nesterov=True),
    }.items():
        model, plain = FullySharded(me, odd()), odd()
        ours, theirs = make(model.parameters()), make(plain.parameters())
        x, y = sharded_cases.odd_batch(me.world_size)
        for _ in range(2):
            sharded_cases.loss_of(model, sharded_cases.own(me, x), sharded_cases.own(me, y)).backward()
            sharded_cases.loss_of(plain, x, y).backward()
            for optimizer in (ours, theirs):
                optimizer.step()
                optimizer.zero_grad()
        state = plain.state_dict()
        differ[name] = max((t - state[n]).abs().max().item() for n, t in model.full_state_dict().items())
    return differ, torchs_optimizer._foreach_supported_types.count(type(next(model.parameters())))


def test_optimizers_step_shards_as_they_step_parameters(clusters):
    for differ, times_listed in clusters(2).call(by_optimizer, show=False):
        assert max(differ.values()) < 1e-12, differ
        assert times_listed == 1  # else they would go parameter by parameter on a GPU


def replaced(me):
    def model():
        return FullySharded(me, two_layers())

    def run(change):
        changed = model()
        change(changed)
        return message_of(lambda: changed.module[0](torch.ones(2, 4).double()))

    state = {n: t.clone() for n, t in model().state_dict().items()}
    return {
        "assigned": run(lambda m: m.load_state_dict(state, assign=True)),
        "set": run(lambda m: setattr(m.module[0][0], "weight", nn.Parameter(torch.ones(3, 4).double()))),
        "gone": run(lambda m: delattr(m.module[0][0], "bias")),
        "none": run(lambda m: setattr(m.module[0][0], "bias", None)),
        "added": run(lambda m: setattr(m.module[0][0], "extra", nn.Parameter(torch.ones(3)))),
        "itself": run(lambda m: setattr(m.module[0][0], "weight", m.module[0][0].weight)),
        "in place": run(lambda m: m.load_state_dict(state)),
    }


def test_parameters_replaced_or_added_after_wrapping(clusters):
    for told in clusters(2).call(replaced, show=False):
        for what in ("assigned", "set"):
            assert "0.0.weight is no longer the shard that this rank kept" in told[what]
        for what in ("gone", "none"):
            assert "0.0.bias is no longer the shard that this rank kept" in told[what]
        assert "extra was added to a module of 0 after the model was sharded" in told["added"]
        assert told["itself"] == told["in place"] == "nothing was raised"
