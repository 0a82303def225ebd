"""A pipeline where it is hard: normalisation, dropout, frozen stages, narrow dtypes, ragged and changing batches."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.meter import metered
from course_lib.parallel.pipeline import Pipeline
from course_lib.schedules import get_schedule, gpipe, interleaved, one_f_one_b, zero_bubble_h1

pytestmark = pytest.mark.xdist_group("pipeline")


def layers(num_stages=4):
    torch.manual_seed(0)
    return [nn.Sequential(nn.Linear(5, 5), nn.Tanh()) for _ in range(num_stages)]


def batch(num_samples, dtype=torch.float64, seed=1):
    made = torch.Generator().manual_seed(seed)
    return torch.randn(2, num_samples, 5, generator=made, dtype=torch.float64).to(dtype)


def left(stages):
    """Gradients and buffers by stage and name."""
    return {
        (s, name): tensor.clone()
        for s, stage in stages
        for named in (((n, p.grad) for n, p in stage.named_parameters()), stage.named_buffers())
        for name, tensor in named
        if tensor is not None
    }


def accumulated(stages, x, y, num_micro_batches):
    """By one process: micro-batch after micro-batch, each with its share of the samples."""
    losses = []
    for part, target in zip(x.tensor_split(num_micro_batches), y.tensor_split(num_micro_batches), strict=True):
        loss = F.mse_loss(nn.Sequential(*stages)(part), target) * (len(part) / len(x))
        loss.backward()
        losses.append(loss.detach())
    return left(enumerate(stages)), torch.stack(losses).sum()


def stepped(me, stages, schedule, x, y, loss_of=F.mse_loss, seed=None):
    """By pipeline: what one step leaves on this rank, and its loss."""
    pipeline = Pipeline(me, stages, schedule, loss_of)
    if seed is not None:
        torch.manual_seed(seed)
    loss = pipeline.step(x, y)
    return left((int(s), stage) for s, stage in pipeline.stages.items()), loss


def assert_same(run, want, loss=None, atol=1e-10):
    got = {key: tensor for found, _ in run for key, tensor in found.items()}
    assert got.keys() == want.keys()
    for key, tensor in want.items():
        torch.testing.assert_close(got[key], tensor, rtol=0, atol=atol, msg=lambda text, key=key: f"{key}: {text}")
    if loss is not None:
        torch.testing.assert_close(run[1][1], loss, rtol=0, atol=atol)


# -- layers that look at the batch, or at chance ------------------------------------------------------------------


def test_batch_norm_sees_micro_batches_and_the_try_out_leaves_no_trace(cluster2):
    """Running means move once for each micro-batch, in their order, as with gradient accumulation."""
    stages = [nn.Sequential(stage, nn.BatchNorm1d(5)).double() for stage in layers(2)]
    x, y = batch(10)
    want, loss = accumulated(copy.deepcopy(stages), x, y, 4)
    run = cluster2.run(stepped, stages, one_f_one_b(2, 4), x, y)
    assert_same(run, want, loss)
    assert want[1, "1.num_batches_tracked"] == 4


@pytest.mark.parametrize("schedule", [gpipe(2, 3), zero_bubble_h1(2, 3)], ids=["gpipe", "zb_h1"])
def test_dropout_draws_on_each_rank_for_itself_and_the_backward_knows_what_was_dropped(cluster2, schedule):
    """The same seed everywhere: each rank draws for its own stage as if the other stage drew nothing."""
    stages = [nn.Sequential(stage, nn.Dropout(0.5)).double() for stage in layers(2)]
    x, y = batch(6)
    run = cluster2.run(stepped, stages, schedule, x, y, seed=7)
    parts, targets = x.split(2), y.split(2)
    entered = parts
    for stage in stages:
        torch.manual_seed(7)
        entered = [stage(part) for part in entered]
    loss = torch.stack([F.mse_loss(out, target) for out, target in zip(entered, targets, strict=True)]).mean()
    loss.backward()
    assert_same(run, left(enumerate(stages)), loss.detach())


# -- what learns, and what does not -------------------------------------------------------------------------------


FROZEN = [(0,), (0, 1), (1,), (2,), (3,), (0, 1, 2, 3)]


def frozen(me, schedules, x, y):
    found = []
    for schedule in schedules:
        for numbers in FROZEN:
            stages = [stage.double() for stage in layers()]
            for number in numbers:
                stages[number].requires_grad_(False)
            found.append(stepped(me, stages, schedule, x, y))
    return found


def test_frozen_stages_get_no_gradient_and_pass_on_those_that_are_wanted(cluster2, cluster4):
    x, y = batch(7)
    for cluster, schedules in (
        (cluster2, [interleaved(2, 4), get_schedule("zb_v", 2, 4)]),
        (cluster4, [one_f_one_b(4, 3), zero_bubble_h1(4, 3)]),
    ):
        run = cluster.run(frozen, schedules, x, y)
        for number in range(2 * len(FROZEN)):
            stages = [stage.double() for stage in layers()]
            for s in FROZEN[number % len(FROZEN)]:
                stages[s].requires_grad_(False)
            loss = F.mse_loss(nn.Sequential(*stages)(x), y)
            if loss.requires_grad:
                loss.backward()
            assert_same([found[number] for found in run], left(enumerate(stages)))


def one_step(me, num_frozen):
    stages = layers(2)
    for stage in stages[:num_frozen]:
        stage.requires_grad_(False)
    stepped(me, stages, gpipe(2, 4), *batch(4, torch.float32))


@pytest.mark.parametrize(("num_frozen", "expected"), [(0, {0: 4 + 1, 1: 4}), (1, {0: 4 + 1}), (2, {0: 4 + 1})])
def test_gradients_that_nobody_wants_do_not_travel(cluster2, num_frozen, expected):
    run = metered(cluster2, one_step, num_frozen)
    sent = [call.rank for call in run.communication.calls if call.operation == "send"]
    assert {rank: sent.count(rank) for rank in set(sent)} == expected


def input_gradients(me, schedules, x, y):
    found = []
    for schedule in schedules:
        mine = x.clone().requires_grad_()
        pipeline = Pipeline(me, [stage.double() for stage in layers(schedule.num_stages)], schedule, F.mse_loss)
        pipeline.step(mine, y)
        pipeline.step(mine, y)
        found.append(mine.grad)
    return found


def test_an_input_that_wants_a_gradient_gets_it_and_adds_them_up(cluster2):
    schedules = [gpipe(2, 3), zero_bubble_h1(2, 3), get_schedule("zb_v", 2, 4)]
    x, y = batch(7)
    run = cluster2.run(input_gradients, schedules, x, y)
    for number, schedule in enumerate(schedules):
        whole = nn.Sequential(*layers(schedule.num_stages)).double()
        mine = x.clone().requires_grad_()
        (2 * F.mse_loss(whole(mine), y)).backward()
        torch.testing.assert_close(run[0][number], mine.grad, rtol=0, atol=1e-10)
        assert run[1][number] is None


# -- dtypes, and losses -------------------------------------------------------------------------------------------


class To(nn.Module):
    def __init__(self, dtype):
        super().__init__()
        self.dtype = dtype

    def forward(self, x):
        return x.to(self.dtype)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_activations_travel_in_the_dtype_they_have(cluster2, dtype):
    """Weights in float32, what travels in another dtype, as under autocast: to the last bit as in one process."""
    first, second = layers(2)
    stages = [nn.Sequential(first, To(dtype)), nn.Sequential(To(torch.float32), second)]
    x, y = batch(6, torch.float32)
    want, loss = accumulated(copy.deepcopy(stages), x, y, 3)
    run = metered(cluster2, stepped, stages, gpipe(2, 3), x, y)
    assert_same(run, want, loss, atol=0)
    sizes = {sum(call.sent_bytes.values()) for call in run.communication.calls if call.operation == "send"}
    assert 2 * 5 * dtype.itemsize in sizes


def test_weights_in_bfloat16(cluster2):
    stages = [stage.bfloat16() for stage in layers(2)]
    x, y = batch(6, torch.bfloat16)
    want, loss = accumulated(copy.deepcopy(stages), x, y, 3)
    assert_same(cluster2.run(stepped, stages, gpipe(2, 3), x, y), want, loss, atol=0)


def weighted(output, target):
    """Each sample with a weight of its own, which stands in the target's last column."""
    return (target[:, -1:] * (output - target) ** 2).mean()


@pytest.mark.parametrize("num_samples", [8, 10, 5])
def test_a_mean_with_weights_is_that_of_the_batch_also_where_micro_batches_are_uneven(cluster2, num_samples):
    stages = [stage.double() for stage in layers(2)]
    x, y = batch(num_samples)
    run = cluster2.run(stepped, stages, one_f_one_b(2, 4), x, y, weighted)
    loss = weighted(nn.Sequential(*stages)(x), y)
    loss.backward()
    assert_same(run, left(enumerate(stages)), loss.detach())


# -- batch after batch --------------------------------------------------------------------------------------------


def changing(me, sizes, num_frozen):
    """Batches of several sizes through one pipeline, forward only before each; layers frozen before the last."""
    stages = [stage.double() for stage in layers(2)]
    pipeline, found = Pipeline(me, stages, one_f_one_b(2, 3), F.mse_loss), []
    for number, size in enumerate(sizes):
        pipeline.forget_shapes()
        x, y = batch(size, seed=number)
        if number == len(sizes) - 1 and num_frozen > me.rank:
            pipeline.stages.requires_grad_(False)
        pipeline.stages.zero_grad()
        output = pipeline.forward_only(x)
        loss = pipeline.step(x, y)
        found.append((left((int(s), stage) for s, stage in pipeline.stages.items()), loss, output))
    return found


@pytest.mark.parametrize("num_frozen", [0, 1])
def test_after_forgetting_a_batch_may_have_another_size_and_other_parts_may_learn(cluster2, num_frozen):
    sizes = [6, 3, 10, 6]
    run = cluster2.run(changing, sizes, num_frozen)
    for number, size in enumerate(sizes):
        stages = [stage.double() for stage in layers(2)]
        if number == len(sizes) - 1:
            for stage in stages[:num_frozen]:
                stage.requires_grad_(False)
        x, y = batch(size, seed=number)
        output = nn.Sequential(*stages)(x)
        loss = F.mse_loss(output, y)
        loss.backward()
        assert_same([found[number][:2] for found in run], left(enumerate(stages)), loss.detach())
        torch.testing.assert_close(run[1][number][2], output.detach(), rtol=0, atol=1e-10)
        assert run[0][number][1:] == (None, None)


def forwards(me, kinds, sizes):
    found = []
    for kind in kinds:
        schedule = get_schedule(kind, me.world_size, 3)
        for size in sizes:
            pipeline = Pipeline(me, [s.double() for s in layers(schedule.num_stages)], schedule, F.mse_loss)
            output = pipeline.forward_only(batch(size)[0])
            found.append((output, [p.grad for p in pipeline.parameters()], output is not None and output.grad_fn))
    return found


def test_forward_only_is_the_model_under_no_grad(cluster2, cluster4):
    kinds, sizes = ["gpipe", "1f1b", "interleaved", "zb_v"], [3, 7]
    for cluster in (cluster2, cluster4):
        run = cluster.run(forwards, kinds, sizes)
        for number, (kind, size) in enumerate((kind, size) for kind in kinds for size in sizes):
            schedule = get_schedule(kind, cluster.world_size, 3)
            want = nn.Sequential(*layers(schedule.num_stages)).double()(batch(size)[0]).detach()
            for rank, found in enumerate(run):
                output, gradients, history = found[number]
                assert not any(g is not None for g in gradients)
                assert not history
                if rank == schedule.rank_of_stage[-1]:
                    torch.testing.assert_close(output, want, rtol=0, atol=1e-10)
                else:
                    assert output is None
