"""The table of replicas: a class like DataParallel beside the course's, through one step in this process."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from course_lib.learn.builds import build_progress, replicas_side_by_side
from course_lib.learn.records import store as store_module
from course_lib.parallel.data import DataParallel, gather, replicate, scatter


def model():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(3, 64), nn.Tanh(), nn.Linear(64, 2))


class Loop(nn.Module):
    def __init__(self, module, devices):
        super().__init__()
        self.module, self.devices = module, devices

    def forward(self, x):
        return torch.cat([self.module(part) for part in x.chunk(len(self.devices))])


class OnDeepCopies(Loop):
    """Gradients of the first part alone; and copies that stay."""

    def forward(self, x):
        parts = x.chunk(len(self.devices))
        self.__dict__["kept"] = [self.module, *(copy.deepcopy(self.module) for _ in parts[1:])]
        return torch.cat([replica(part) for replica, part in zip(self.kept, parts, strict=True)])


class OneByOne(Loop):
    def forward(self, x):
        replicas = replicate(self.module, self.devices)
        return gather([replica(part) for replica, part in zip(replicas, scatter(x, self.devices), strict=True)], "cpu")


def table_of(wrap, **more):
    found = replicas_side_by_side({"yours": wrap}, model(), torch.linspace(-1, 1, 24).view(8, 3), **more)
    assert list(found.columns) == ["yours", "the course's"]
    return found, found.columns["yours"]


def test_the_courses_own_is_equal_copies_once_for_each_other_device_and_leaves_nothing():
    _, column = table_of(DataParallel)
    weights = 4 * (3 * 64 + 64 + 64 * 2 + 2)
    assert column["equal"] == "yes"
    assert column["copied"].endswith("3.1 models")  # three, and parts of the batch
    assert 3 * weights <= 1024 * float(column["copied"].split(" KiB")[0]) < 3.2 * weights
    assert (column["at_once"], column["left"]) == ("4 of 4", "nothing")


def test_a_loop_copies_nothing_and_runs_one_after_another():
    _, column = table_of(Loop)
    assert (column["equal"], column["at_once"]) == ("yes", "1 of 4")
    assert column["copied"].startswith("0 B")


def test_lost_gradients_and_kept_replicas_show():
    _, column = table_of(OnDeepCopies)
    assert column["equal"] == "no"
    assert "weight" in column["left"]


def test_replicas_without_threads_show():
    _, column = table_of(OneByOne)
    assert (column["equal"], column["at_once"]) == ("yes", "1 of 4")


def test_one_that_fails_has_dashes_and_a_line(capsys):
    found, column = table_of(lambda module, devices: 1 / 0)
    assert column == {}
    assert found.failures == {"yours": "ZeroDivisionError: division by zero"}
    assert "yours: ZeroDivisionError" in repr(found)


def test_fewer_rows_than_devices():
    found = replicas_side_by_side({"yours": DataParallel}, model(), torch.ones(3, 3), num_devices=2)
    assert found.columns["yours"]["at_once"] == "2 of 2"
    found = replicas_side_by_side({"yours": DataParallel}, model(), torch.ones(1, 3))
    assert (found.columns["yours"]["at_once"], found.columns["yours"]["copied"]) == ("1 of 1", "0 B, 0.0 models")


def test_the_build_shows_its_last_table_again(monkeypatch, tmp_path):
    monkeypatch.setattr(store_module, "_is_off", lambda: False)
    monkeypatch.setenv("COURSE_HOME", str(tmp_path))
    table_of(DataParallel, build="03.data_parallel")
    assert "replicas at the same time" in repr(build_progress("03.data_parallel"))
    with pytest.raises(ValueError, match=r"no build '03.nothing'"):
        table_of(DataParallel, build="03.nothing")
