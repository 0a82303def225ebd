"""Pipelines on GPUs: two ranks on one device, with messages through the host; and NCCL between two devices.

Run with ``pytest -m gpu`` or ``pytest -m multigpu`` on a machine that has them; elsewhere these tests are skipped.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib import Cluster, machine
from course_lib.parallel.pipeline import Pipeline
from course_lib.schedules import SCHEDULES, get_schedule, peak_in_flight_by_stage

pytestmark = pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning")


def stages_of(schedule):
    torch.manual_seed(0)
    return [nn.Sequential(nn.Linear(5, 5), nn.Tanh()).double() for _ in range(schedule.num_stages)]


def steps(me, kinds, x, y):
    """For each kind: gradients by stage after two batches, the activations kept, and where the work was done."""
    found = {}
    for kind in kinds:
        schedule = get_schedule(kind, me.world_size, 4)
        pipeline = Pipeline(me, stages_of(schedule), schedule, F.mse_loss)
        for _ in range(2):
            pipeline.step(x, y)
        gradients = {s: [p.grad for p in stage.parameters()] for s, stage in pipeline.stages.items()}
        found[kind] = (
            gradients,
            pipeline.peak_in_flight,
            str(next(iter(pipeline.parameters())).device),
            me.backend,
        )
    return found


def check_on(cluster, backend):
    x, y = torch.randn(2, 10, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    run = cluster.run(steps, tuple(SCHEDULES), x, y)
    for kind in SCHEDULES:
        schedule = get_schedule(kind, 2, 4)
        stages = stages_of(schedule)
        (2 * F.mse_loss(nn.Sequential(*stages)(x), y)).backward()
        for s, rank in enumerate(schedule.rank_of_stage):
            gradients, peaks, device, its_backend = run[rank][kind]
            assert (device[:5], its_backend) == ("cuda:", backend)
            assert peaks[s] == peak_in_flight_by_stage(schedule)[s]
            for got, parameter in zip(gradients[str(s)], stages[s].parameters(), strict=True):
                torch.testing.assert_close(got.cpu(), parameter.grad, rtol=0, atol=1e-10)


@pytest.mark.gpu
@pytest.mark.limit_s(120)
@pytest.mark.skipif(len(machine().devices) < 1, reason="needs a GPU")
def test_every_schedule_runs_with_two_ranks_on_one_gpu():
    with Cluster(2, backend="gloo") as cluster:
        check_on(cluster, "gloo")


@pytest.mark.multigpu
@pytest.mark.limit_s(120)
@pytest.mark.skipif(len(machine().devices) < 2, reason="needs two GPUs")
def test_every_schedule_runs_over_nccl():
    with Cluster(2, backend="nccl") as cluster:
        check_on(cluster, "nccl")
