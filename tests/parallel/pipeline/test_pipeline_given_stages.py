"""A schedule on ranks that are given their own stages alone; and any runtime at a given pace, told as a trace."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from course_lib.learn.exercises.lesson_07.pipe.stages import loss_of
from course_lib.meter import metered
from course_lib.parallel.pipeline import GivenStages, run_runtime
from course_lib.schedules import from_text, gpipe, interleaved, one_f_one_b, zero_bubble_v
from course_lib.schedules.stage_times import StageTimes

pytestmark = pytest.mark.xdist_group("pipeline")

TIMES = StageTimes(0.004, 0.004, 0.004)
WIDTH, ROWS = 5, (3, 3, 3, 1)  # of the micro-batches
TIED = (((0, "0.weight"), (3, "0.weight")),)


def stages_of(num_stages):
    torch.manual_seed(0)
    stages = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()).double() for _ in range(num_stages)]
    stages[-1][0].weight.data.copy_(stages[0][0].weight.data)
    return stages


def batch():
    made = torch.Generator().manual_seed(1)
    x, y = (torch.randn(sum(ROWS), WIDTH, generator=made, dtype=torch.float64) for _ in range(2))
    return list(x.split(ROWS)), list(y[:, 1:].split(ROWS))


def room(_stage, i):
    return torch.empty(ROWS[i], WIDTH, dtype=torch.float64)


def two_steps(me, schedule, ties):
    """Gradients of two batches that are added up, and the second loss."""
    all_stages = stages_of(schedule.num_stages)
    own = {stage: all_stages[stage] for stage in schedule.stages_of_rank[me.rank]}
    if ties and {0, schedule.num_stages - 1} <= own.keys():
        own[schedule.num_stages - 1][0].weight = own[0][0].weight
    pipeline = GivenStages(me, own, schedule, loss_of, room, ties)
    inputs, targets = batch()
    for _ in range(2):
        loss = pipeline.step(inputs if 0 in own else None, targets if schedule.num_stages - 1 in own else None)
    return {f"{s}.{name}": p.grad for s in own for name, p in own[s].named_parameters()}, loss


def alone(num_stages, is_tied):
    stages = stages_of(num_stages)
    if is_tied:
        stages[-1][0].weight = stages[0][0].weight
    inputs, targets = batch()
    for _ in range(2):
        loss = loss_of(nn.Sequential(*stages)(torch.cat(inputs)), torch.cat(targets))
        loss.backward()
    return {f"{s}.{name}": p.grad for s, stage in enumerate(stages) for name, p in stage.named_parameters()}, loss


@pytest.mark.parametrize("ties", [(), TIED], ids=["", "tied"])
@pytest.mark.parametrize("schedule", [interleaved(2, 4), zero_bubble_v(2, 4)], ids=lambda schedule: schedule.name)
def test_gradients_and_loss_are_those_of_one_process(cluster2, schedule, ties):
    whole, loss = alone(4, bool(ties))
    run = cluster2.run(two_steps, schedule, ties)
    found = {name: grad for grads, _ in run for name, grad in grads.items()}
    assert found.keys() == whole.keys()
    for name, grad in whole.items():
        torch.testing.assert_close(found[name], grad, rtol=1e-9, atol=1e-12)
    losses = [one for _, one in run]
    last = schedule.rank_of_stage[-1]
    torch.testing.assert_close(losses[last], loss.detach(), rtol=1e-9, atol=1e-12)
    assert losses[1 - last] is None


def test_nothing_is_sent_but_activations_and_gradients(cluster2):
    run = metered(cluster2, two_steps, one_f_one_b(2, 4), ())
    assert run.communication.by_operation() == {"send": 2 * 2 * 4, "recv": 2 * 2 * 4}
    assert run.communication.total_bytes == 2 * 2 * sum(ROWS) * WIDTH * 8


def wrongly(me, schedule, stages, num_inputs):
    try:
        GivenStages(me, {stage: nn.Identity() for stage in stages}, schedule, loss_of, room).step([1] * num_inputs)
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("stages", "num_inputs", "says"),
    [
        ([0], 2, "rank 0 was given the stages [0], and the schedule 'GPipe' gives it [0, 1]; give it these."),
        ([0, 1], 3, "rank 0 was given 3 micro-batches as inputs; the schedule has 2, so give 2."),
    ],
)
def test_what_does_not_fit_the_table_is_told(stages, num_inputs, says):
    table = from_text("F0.0 F0.1 B0.1 B0.0 F1.0 F1.1 B1.1 B1.0", name="GPipe")
    me = SimpleNamespace(rank=0, world_size=1, device=torch.device("cpu"), backend="gloo")
    assert wrongly(me, table, stages, num_inputs) == says


# -- at a given pace --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", [one_f_one_b(2, 3), zero_bubble_v(2, 4)], ids=lambda schedule: schedule.name)
def test_a_runtime_is_told_as_the_actions_of_its_rows_in_an_order_that_is_possible(cluster2, schedule):
    trace = run_runtime(cluster2, GivenStages, schedule, TIMES, steps=1)
    assert [[span.action for span in row] for row in trace.rows] == [list(row) for row in schedule.rows]
    assert min(span.start_s for span in trace.spans) == 0
    for row in trace.rows:
        starts = [span.start_s for span in row]
        assert starts == sorted(starts)


class RunsNothing:
    def __init__(self, *given):
        pass

    def step(self, inputs, targets):
        return None


def test_a_runtime_that_leaves_an_action_out_is_told(cluster2):
    with pytest.raises(ValueError, match=r"rank 0 has not run F0\.0, which stands in its row"):
        run_runtime(cluster2, RunsNothing, gpipe(2, 1), TIMES, steps=1)


def test_a_cluster_of_another_size_is_told(cluster2):
    with pytest.raises(ValueError, match="'GPipe' got 2 ranks, and it has 3; give it 3"):
        run_runtime(cluster2, GivenStages, gpipe(3, 1), TIMES)
