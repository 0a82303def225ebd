"""What can be wrapped, where a wrapper may stand, and what becomes of it when it is copied, nested or saved."""

from __future__ import annotations

import copy
import gc
import pickle

import pytest
import torch
from ddp_cases import Branches, gradients, message_of, wrapped_twice, x_of
from torch import nn
from torch.nn.parallel import DistributedDataParallel as TorchDDP

from course_lib.parallel.data import DistributedDataParallel

pytestmark = pytest.mark.xdist_group("parallel_ddp")


def wrapped_within(me) -> list[str]:
    """A wrapper around a wrapper: within a model, all of the model, PyTorch's own; and on rank 1 alone."""
    said = []
    for make in (
        lambda: nn.Sequential(nn.Linear(3, 3), DistributedDataParallel(me, nn.Linear(3, 3))),
        lambda: DistributedDataParallel(me, Branches()),
        lambda: nn.Sequential(TorchDDP(nn.Linear(3, 3))),
    ):
        model = make()
        said.append(message_of(lambda model=model: DistributedDataParallel(me, model)))
    inner = DistributedDataParallel(me, nn.Linear(3, 3))
    model = nn.Sequential(inner if me.rank == 1 else inner.module)
    said.append(message_of(lambda: DistributedDataParallel(me, model)))
    return said


def test_a_wrapper_within_a_wrapper_is_refused_on_every_rank(two):
    for within, itself, of_torch, on_one in two.call(wrapped_within):
        assert "'1' of this model is a DistributedDataParallel already" in within
        assert "Wrap the outer model alone" in within
        assert "this model is a DistributedDataParallel already" in itself
        assert "'0' of this model is a DistributedDataParallel already" in of_torch
        assert on_one.startswith("rank 1: '0' of this model is a DistributedDataParallel")


def copied(me) -> dict:
    """Copies of a wrapper that has trained, and of a model that holds one: their gradients, and the first one's own."""
    ours, theirs = wrapped_twice(me, Branches(c=torch.float32), find_unused_parameters=True)
    for ddp in (ours, theirs):
        ddp(x_of(me), "abc").sum().backward()
    before, found = gradients(ours), {}
    for way, twin in {
        "deepcopy": copy.deepcopy(ours),
        "pickle": pickle.loads(pickle.dumps(ours)),
        "within": copy.deepcopy(nn.Sequential(ours))[0],
    }.items():
        twin(x_of(me, 1), "ab").square().sum().backward()
        found[way] = gradients(twin)
    theirs.zero_grad()
    theirs(x_of(me, 1), "ab").square().sum().backward()
    found["theirs"], found["first untouched"] = gradients(theirs), gradients(ours) == before
    del ours, theirs
    gc.collect()
    twin.zero_grad()
    twin(x_of(me, 1), "ab").square().sum().backward()
    found["alone"] = gradients(twin)
    return found


def test_a_copy_of_a_wrapper_averages_by_itself(two):
    for found in two.call(copied):
        assert found.pop("first untouched")
        theirs = found.pop("theirs")
        assert theirs[2] is None
        for way, ours in found.items():
            assert ours[2] is None, way
            assert torch.allclose(torch.tensor(ours[:2]), torch.tensor(theirs[:2]), atol=1e-12), way


class Within(nn.Module):
    """A wrapper as a part: its parent saves and loads with the names of the bare parts."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part, self.head = part, nn.Linear(3, 3)


def saved_within(me) -> dict:
    def bare(seed: int) -> nn.Module:
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))

    parent, plain = Within(DistributedDataParallel(me, bare(1))), Within(bare(2))
    said = {"itself": message_of(lambda: parent.load_state_dict(parent.state_dict()))}
    said["keys"] = list(parent.state_dict()) == list(plain.state_dict())
    said["bare"] = message_of(lambda: parent.load_state_dict(plain.state_dict()))
    said["loaded"] = torch.equal(parent.part.module[0].weight, plain.part[0].weight)
    state = plain.state_dict()
    del state["part.0.bias"]
    said["missing"] = message_of(lambda: parent.load_state_dict(state))
    said["unchanged"] = list(state) == [name for name in plain.state_dict() if name != "part.0.bias"]
    return said


def test_a_wrapper_as_a_part_is_saved_and_loaded_by_its_parent(two):
    for said in two.call(saved_within):
        assert said["itself"] == said["bare"] == "nothing was raised"
        assert said["keys"]
        assert said["loaded"]
        assert said["unchanged"], "the state of the caller"
        assert "Missing key(s) in state_dict" in said["missing"]
        assert "0.bias" in said["missing"]
