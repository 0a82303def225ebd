"""`course mine --measure`: bytes, memory and time of the learner's classes beside PyTorch's, in one run each."""

from __future__ import annotations

import pytest
from test_mine_pack import build, said
from torch import nn

from course_lib.mine import courses
from course_lib.mine.terminal import measure
from course_lib.mine.terminal.measure import to_measure, training_beside
from course_lib.mine.terminal.pieces import WAYS


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("way", WAYS)
def test_each_class_stands_beside_pytorchs_with_measured_numbers(clusters, way):
    table = training_beside(clusters(2), way, getattr(courses, WAYS[way]), num_pairs=1)
    assert table.failures == {}
    assert len(table.columns) == 2
    for column in table.columns.values():
        assert column["equal"] == "yes"
        assert set(column) == {"equal", "bytes", "messages", "memory", "time"}
        assert column["time"].endswith("(median of 1)")
        assert column["bytes"].split()[0] not in ("0", "–")
    assert WAYS[way] in str(table)


class Apart(nn.Module):
    """Averages nothing."""

    def __init__(self, module, me):
        super().__init__()
        self.module = module

    def forward(self, tokens):
        return self.module(tokens)


class Fails(Apart):
    def forward(self, tokens):
        raise ValueError("not today")


def test_another_result_and_a_failure_are_told_and_pytorchs_column_stands(clusters):
    table = training_beside(clusters(2), "ddp", Apart, num_pairs=1)
    assert table.columns["yours"]["equal"].startswith("no: rank ")
    assert table.columns["yours"]["bytes"] != table.columns["DistributedDataParallel"]["bytes"]
    table = training_beside(clusters(2), "ddp", Fails, num_pairs=1)
    assert "not today" in table.failures["yours"]
    assert table.columns["yours"] == {}
    assert "time" in table.columns["DistributedDataParallel"]


def test_before_a_build_has_passed_nothing_is_run(anna, capsys, monkeypatch):
    monkeypatch.setattr(measure, "training_beside", lambda *_: pytest.fail("nothing is yours"))
    code, out, _ = said(capsys, "--measure")
    assert code == 1
    assert "once 04.ddp_bytes has passed, it is yours" in out


def test_what_has_passed_is_measured_and_what_has_not_is_named(anna):
    build(anna, "MyDDP")
    ways, left_out = to_measure()
    assert list(ways) == ["ddp"]
    assert len(left_out) == 2
