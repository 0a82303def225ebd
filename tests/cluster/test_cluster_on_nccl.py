"""What differs for ranks on GPUs with NCCL, as far as it can be asked without one: PyTorch's parts are stood in for."""

from __future__ import annotations

import importlib
import json
import os
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

from course_lib.cluster import launch
from course_lib.cluster.base import process_group
from course_lib.cluster.base.backends import RankDevice
from course_lib.cluster.base.process_group import RankConfig
from course_lib.cluster.base.rank import Rank
from course_lib.cluster.failures import flight_recorder, rank_status
from course_lib.cluster.failures.deadlock import wait_of
from course_lib.cluster.failures.rank_status import Accounts, Operation, RankStatus
from course_lib.cluster.hooks.op_tracker import OpTracker
from course_lib.cluster.process.caller_context import Context, apply, context_here
from course_lib.cluster.state.process_state import ProcessState

black_box_module = importlib.import_module("course_lib.cluster.failures.hang_dump")  # the package has the function


@pytest.fixture
def as_it_was():
    """The environment, import path and folder, which a context replaces."""
    before = context_here()
    yield before
    os.environ.clear()
    os.environ.update(before.env)
    sys.path[:] = before.sys_path
    os.chdir(before.cwd)


def env_after(context: Context, seat: RankDevice, monkeypatch: pytest.MonkeyPatch, rank: int = 1) -> dict[str, str]:
    monkeypatch.setattr(torch.cuda.nccl, "version", lambda: (2, 29, 7))
    apply(context, RankConfig(rank, 2, seat, Path("/nowhere"), 1, False, True))
    return dict(os.environ)


# --- The environment --------------------------------------------------------------------------------------------------


def test_a_new_context_keeps_what_ranks_on_one_gpu_need(as_it_was: Context, monkeypatch: pytest.MonkeyPatch):
    env = env_after(as_it_was, RankDevice("cuda:0", "nccl-shared"), monkeypatch)
    assert env["NCCL_HOSTID"] == "course-rank-1"
    assert "NCCL_HOSTID" not in env_after(as_it_was, RankDevice("cuda:1", "nccl"), monkeypatch)


def test_nccl_warns_of_no_first_message_and_gloo_hears_nothing(as_it_was: Context, monkeypatch: pytest.MonkeyPatch):
    name = "TORCH_NCCL_SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING"
    assert env_after(as_it_was, RankDevice("cuda:1", "nccl"), monkeypatch)[name] == "false"
    assert name not in env_after(as_it_was, RankDevice("cpu", "gloo"), monkeypatch)


# --- The flight recorder ----------------------------------------------------------------------------------------------


def entry(name: str, number: int, *, retired: bool) -> dict[str, object]:
    return {
        "time_created_ns": number,
        "process_group": ["0", ""],
        "collective_seq_id": number,
        "profiling_name": name,
        "input_sizes": [[3]],
        "input_dtypes": ["Float"],
        "retired": retired,
    }


def test_nccls_recorder_is_another_one_and_read_where_there_is_cuda(monkeypatch: pytest.MonkeyPatch):
    c10d = torch._C._distributed_c10d
    said = json.dumps({"entries": [entry("nccl:all_reduce", 1, retired=False)]})
    monkeypatch.setattr(c10d, "_dump_nccl_trace_json", lambda *_: said, raising=False)
    assert flight_recorder.entries_since(0, lambda _: 0, nccl=True) == []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    (found,) = flight_recorder.entries_since(0, lambda _: 0, nccl=True)
    assert (found.name, found.number, found.is_done) == ("all_reduce", 1, False)
    assert all(one.name != "all_reduce" or one.number != 1 for one in flight_recorder.entries_since(0, lambda _: 0))


def test_what_nccls_recorder_says_is_told_and_not_judged():
    operation = Operation("all_reduce", 2, "0", False, False, ((3,),), ("float32",))
    accounts = Accounts(counts={"0": 2}, groups={"0": (0, 1)})
    there = RankStatus(0, operation, (), 2, is_in_wait=True, is_asleep=True, accounts=accounts)
    look = {0: there, 1: RankStatus(1, None, (), 1, state="returned", accounts=Accounts(counts={"0": 1}))}
    assert wait_of(0, look) is not None
    look[0] = RankStatus(0, operation, (), 2, is_in_wait=True, is_asleep=True, accounts=accounts, is_on_nccl=True)
    assert wait_of(0, look) is None


# --- Leaving ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("backend", "on_gpu", "has_failed", "leaves"),
    [
        ("nccl", True, True, False),
        ("nccl", True, False, True),
        ("gloo", True, True, True),
        # Of a group that was made without naming one: peers must hear of it.
        ("undefined", False, True, True),
        ("undefined", True, True, False),
    ],
)
def test_a_rank_that_failed_does_not_wait_in_nccls_goodbye(
    monkeypatch: pytest.MonkeyPatch, backend: str, on_gpu: bool, has_failed: bool, leaves: bool
):
    said: list[str] = []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: on_gpu)
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_backend", lambda: backend)
    monkeypatch.setattr(dist, "destroy_process_group", lambda: said.append("left"))
    process_group.leave(has_failed=has_failed)
    assert bool(said) is leaves


# --- Switches of CUDA -------------------------------------------------------------------------------------------------


def test_autocast_of_cuda_and_the_current_gpu_are_put_back(monkeypatch: pytest.MonkeyPatch):
    here = SimpleNamespace(gpu=1)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: here.gpu)
    monkeypatch.setattr(torch.cuda, "set_device", lambda number: setattr(here, "gpu", number))
    surroundings = ProcessState()
    surroundings.enter_run()
    here.gpu = 0
    torch.set_autocast_enabled("cuda", True)
    said = surroundings.tidy()
    assert here.gpu == 1
    assert not torch.is_autocast_enabled("cuda")
    assert said == ("left autocast of CUDA on", "left the current GPU at 0")


OPERATION = Operation("all_reduce", 2, "0", False, False, ((3,),), ("float32",))


def of_nccl_alone(began_ns, before, *, nccl=False):
    return [OPERATION] if nccl else []


def test_a_rank_tells_where_it_stands_by_nccls_recorder_where_gloos_is_empty(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rank_status, "entries_since", of_nccl_alone)
    standing = rank_status.StatusThread(0, OpTracker()).status()
    assert (standing.operation, standing.is_on_nccl) == (OPERATION, True)
    monkeypatch.setattr(rank_status, "entries_since", lambda *_, nccl=False: [] if nccl else [OPERATION])
    assert not rank_status.StatusThread(0, OpTracker()).status().is_on_nccl


def test_a_black_box_hears_nccls_collectives(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(black_box_module, "entries_since", of_nccl_alone)
    assert black_box_module._progress() == (1, 0)


@pytest.mark.parametrize("fails", [False, True])
def test_a_rank_of_torchrun_says_goodbye_only_after_success(monkeypatch: pytest.MonkeyPatch, fails: bool):
    said: list[str] = []

    def function(me):
        if fails:
            raise ValueError("it failed")

    monkeypatch.setattr(launch, "resolve", lambda name: function)
    monkeypatch.setattr(launch, "rank_from_env", lambda env: Rank(0, 1, torch.device("cpu"), "gloo"))
    monkeypatch.setattr(dist, "init_process_group", lambda *_, **__: None)
    monkeypatch.setattr(dist, "destroy_process_group", lambda: said.append("left"))
    monkeypatch.setattr(torch, "set_num_threads", lambda number: None)
    with pytest.raises(ValueError, match="it failed") if fails else nullcontext():
        launch.main(["module:function"])
    assert bool(said) is not fails
