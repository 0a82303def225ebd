"""Pipelines side by side: gradients are averaged once, after the last micro-batch, and are those of the whole batch."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from course_lib.meter import metered
from course_lib.parallel.pipeline import Pipeline, average_gradients
from course_lib.schedules import get_schedule

pytestmark = pytest.mark.xdist_group("pipeline")


class Layer(nn.Module):
    """One weight is frozen, and one, of another dtype, is never used."""

    def __init__(self):
        super().__init__()
        self.used, self.frozen = nn.Linear(5, 5).double(), nn.Linear(5, 5).double().requires_grad_(False)
        self.idle = nn.Linear(5, 3)

    def forward(self, x):
        return torch.tanh(self.used(x)) + self.frozen(x)


def model():
    torch.manual_seed(0)
    return [Layer() for _ in range(4)]


def data():
    return torch.randn(2, 12, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def trained(stages, steps):
    """Weights after steps of SGD with momentum."""
    parameters = [p for stage in stages for p in stage.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
    for step in steps:
        optimizer.zero_grad()
        step()
        optimizer.step()


def side_by_side(me, kind, num_steps):
    """Two pipelines of two ranks, each with half of the batch, in micro-batches of 2, 2, 1 and 1 samples."""
    (x, y), layers = data(), model()
    groups = [dist.new_group(ranks) for ranks in ([0, 2], [1, 3])]
    half = slice(0, 6) if me.rank < 2 else slice(6, 12)
    schedule = get_schedule(kind, 2, 4)
    per_stage = 4 // schedule.num_stages
    stages = [nn.Sequential(*layers[s * per_stage :][:per_stage]) for s in range(schedule.num_stages)]
    pipeline = Pipeline(me, stages, schedule, F.mse_loss, ranks=[[0, 1], [2, 3]][me.rank // 2])

    def step():
        pipeline.step(x[half], y[half])
        average_gradients(pipeline, groups[me.rank % 2])

    trained([pipeline.stages], [step] * num_steps)
    held = {*pipeline.parameters()}
    return {
        (n, name): (p.detach(), p.grad)
        for n, layer in enumerate(layers)
        for name, p in layer.named_parameters()
        if p in held
    }


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("kind", ["gpipe", "1f1b", "zb_h1", "interleaved"])
def test_two_pipelines_that_average_gradients_learn_as_one_process_does(cluster4, kind):
    layers, (x, y) = model(), data()
    whole = nn.Sequential(*layers)
    trained([whole], [lambda: F.mse_loss(whole(x), y).backward()] * 3)
    want = {(n, name): p for n, layer in enumerate(layers) for name, p in layer.named_parameters()}
    run = cluster4.run(side_by_side, kind, 3)
    for pipeline in (run[0] | run[1], run[2] | run[3]):
        assert pipeline.keys() == want.keys()
        for (n, name), parameter in want.items():
            weight, gradient = pipeline[n, name]
            torch.testing.assert_close(weight, parameter.detach(), rtol=0, atol=1e-10)
            if "idle" in name:
                assert not gradient.any()
            elif "frozen" in name:
                assert gradient is None
            else:
                torch.testing.assert_close(gradient, parameter.grad, rtol=0, atol=1e-10)


def test_gradients_are_averaged_by_one_all_reduce_after_the_last_micro_batch(cluster4):
    """One for each dtype; the frozen weights do not travel, the unused ones do."""
    run = metered(cluster4, side_by_side, "1f1b", 1)
    for rank in range(4):
        calls = [call for call in run.communication.calls if call.rank == rank]
        assert [call.operation for call in calls].count("all_reduce") == 2
        last = calls[-2:]
        assert [(call.operation, call.size_bytes) for call in last] == [
            ("all_reduce", 2 * 30 * 8),
            ("all_reduce", 2 * 18 * 4),
        ]
