"""The real job of part e is a ResNet-50 in PyTorch's buckets, and both oracles of its exercises say what others say."""

from __future__ import annotations

import pytest
import torch

from course_lib.learn.exercises.lesson_04.trace_buckets import cases
from course_lib.learn.exercises.lesson_04.trace_overlap.cases import CASES, right
from course_lib.models import ResNet
from course_lib.parallel.data import assign_buckets
from course_lib.traces import table_rows
from course_lib.traces.intervals import common, length, union

MIB = 2**20


def test_the_buckets_of_a_resnet_50_are_those_of_the_trace():
    with torch.device("meta"):
        parameters = list(ResNet.preset(50).parameters())
    sizes = [parameter.nbytes for parameter in parameters]
    buckets = cases.right(sizes, MIB, 25 * MIB)
    in_trace = [row.size_bytes for row in table_rows("ddp_resnet_2xa100") if row.collective == "allreduce"]
    assert [sum(sizes[place] for place in bucket) for bucket in buckets] * 3 == in_trace
    courses = [[id(parameter) for parameter in bucket.parameters] for bucket in assign_buckets(parameters)]
    assert [[id(parameters[place]) for place in bucket] for bucket in buckets] == courses


def test_another_resnet_has_other_buckets():
    with torch.device("meta"):
        sizes = [parameter.nbytes for parameter in ResNet.preset(101).parameters()]
    assert len(cases.right(sizes, MIB, 25 * MIB)) != 5


@pytest.mark.parametrize("label", CASES)
def test_what_two_lists_have_in_common_is_what_traces_count(label):
    communication, computing = (union([(s, s + d) for s, d in spans]) for spans in CASES[label])
    assert right(*CASES[label]) == pytest.approx(length(common(communication, computing)))
