"""What a pod finds in its environment: torchrun's own parser reads it, and sizes that are not there are told."""

from __future__ import annotations

import os
from unittest import mock

import pytest
from torch.distributed.run import get_args_parser

from course_lib.take_along import launch_file, pod_environment


def test_torchrun_reads_the_jobs_sizes_from_it():
    text = launch_file("trainjob.yaml").read_text().replace("numNodes: 2", "numNodes: 3")
    with mock.patch.dict(os.environ, pod_environment(text, node=2)):
        read = get_args_parser().parse_args(["-m", "train_ddp"])
    assert (read.nnodes, read.nproc_per_node, read.node_rank) == ("3", "8", 2)
    assert read.master_addr == "train-node-0-0.train"


@pytest.mark.parametrize(
    ("text", "node", "words"),
    [
        ("kind: Job", 0, "lacks numNodes and numProcPerNode"),
        ("  numNodes: 2", 0, "lacks numProcPerNode"),
        ("  numNodes: 2\n  numProcPerNode: 8", 2, "node is 2, and the job has 2: give 0 to 1"),
        ("  numNodes: 2\n  numProcPerNode: 8", -1, "node is -1"),
    ],
)
def test_what_is_not_in_the_job_is_told(text, node, words):
    with pytest.raises(ValueError, match=words):
        pod_environment(text, node)
