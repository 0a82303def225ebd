"""A pipeline learns as the uncut model does, under every schedule, and as torch.distributed.pipelining does."""

from __future__ import annotations

import functools
import itertools
import random

import pytest
import torch
import torch.nn.functional as F
from models_to_cut import batches, gradients_of, loss_of_kind
from models_to_cut import make as model_of
from torch import nn

from course_lib.meter import expect, metered
from course_lib.parallel.model import cut, pieces_of, split_evenly
from course_lib.parallel.pipeline import Pipeline, steps_of
from course_lib.schedules import (
    SCHEDULES,
    Action,
    Schedule,
    get_schedule,
    peak_in_flight_by_stage,
    validate,
    virtual_stages_of,
)

pytestmark = pytest.mark.xdist_group("pipeline")

OPTIMIZERS = {
    "momentum": functools.partial(torch.optim.SGD, lr=0.1, momentum=0.9),
    "adamw": functools.partial(torch.optim.AdamW, lr=0.01),
}


def model(num_stages):
    torch.manual_seed(0)
    return nn.Sequential(*[nn.Sequential(nn.Linear(5, 5), nn.Tanh()) for _ in range(num_stages)]).double()


def data(num_samples, count=5):
    made = torch.Generator().manual_seed(1)
    for _ in range(count):
        yield torch.randn(2, num_samples, 5, generator=made, dtype=torch.float64)


def by_one(whole, optimizer, pairs, loss_of):
    """Losses, gradients of the last batch and weights after it, by one process."""
    optimizer, losses = optimizer(whole.parameters()), []
    for x, y in pairs:
        optimizer.zero_grad()
        loss = loss_of(whole(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, gradients_of(whole), dict(whole.state_dict())


def by_pipeline(me, stages, schedule, optimizer, pairs, loss_of):
    """The same on a rank, for its stages; the names of stage s begin with ``s.``."""
    pipeline = Pipeline(me, stages, schedule, loss_of)
    optimizer, losses = optimizer(pipeline.parameters()), []
    for x, y in pairs:
        optimizer.zero_grad()
        x, y = (x if 0 in schedule.stages_of_rank[me.rank] else None), (y if is_last(me, schedule) else None)
        loss = pipeline.step(x, y)
        assert (loss is None) != is_last(me, schedule)
        optimizer.step()
        losses.append(loss if loss is None else loss.item())
    return losses, gradients_of(pipeline.stages), dict(pipeline.stages.state_dict()), pipeline.peak_in_flight


def is_last(me, schedule):
    return schedule.rank_of_stage[-1] == me.rank


def joined(parts):
    """Dicts of several ranks as one; nothing is there twice."""
    whole = {}
    for part in parts:
        assert not whole.keys() & part.keys()
        whole |= part
    return whole


def assert_same(got, want):
    assert got.keys() == want.keys()
    for name, tensor in want.items():
        torch.testing.assert_close(got[name], tensor, rtol=0, atol=1e-10)


CASES = [(1, 1), (3, 3), (4, 10), (5, 12), (8, 8)]  # micro-batches and samples: divided, ragged, one each


def all_cases(me, kind, optimizer):
    found = {}
    for m, num_samples in CASES:
        schedule = get_schedule(kind, me.world_size, m)
        stages = list(model(schedule.num_stages))
        found[m] = by_pipeline(me, stages, schedule, OPTIMIZERS[optimizer], data(num_samples), F.mse_loss)
    return found


# The others run on 1 to 4 ranks; for what the runtime has met in another schedule, one number will do.
ON_RANKS = {"zb_h2": [3], "zb_1p": [2], "zb_2p": [3], "dualpipe_v": [2, 4]}


@pytest.mark.first_cases(3)
@pytest.mark.parametrize(
    ("kind", "num_ranks"), [(kind, n) for kind in SCHEDULES for n in ON_RANKS.get(kind, [1, 2, 3, 4])]
)
def test_loss_gradients_and_weights_are_those_of_one_process(clusters, kind, num_ranks):
    """Each optimizer with half of the schedules and numbers of ranks, and both with each schedule."""
    optimizer = sorted(OPTIMIZERS)[(num_ranks + list(SCHEDULES).index(kind)) % 2]
    run = clusters(num_ranks).run(all_cases, kind, optimizer)
    for m, num_samples in CASES:
        schedule = get_schedule(kind, num_ranks, m)
        whole = model(schedule.num_stages)
        losses, gradients, state = by_one(whole, OPTIMIZERS[optimizer], data(num_samples), F.mse_loss)
        assert run[schedule.rank_of_stage[-1]][m][0] == pytest.approx(losses, rel=0, abs=1e-10)
        assert_same(joined(found[m][1] for found in run), gradients)
        assert_same(joined(found[m][2] for found in run), state)
        assert joined(found[m][3] for found in run) == dict(enumerate(peak_in_flight_by_stage(schedule)))


# -- models of the course: tokens, tied embeddings ------------------------------------------------------------------


def text(me, kind, model_kind):
    schedule = get_schedule(kind, me.world_size, 3, num_virtual_stages=virtual_stages_of(kind))
    whole = model_of(model_kind)
    stages = cut(whole, split_evenly([1] * len(pieces_of(whole)), schedule.num_stages))
    optimizer = OPTIMIZERS["adamw"]
    losses, gradients, _, _ = by_pipeline(
        me, stages, schedule, optimizer, batches(model_kind), loss_of_kind(model_kind)
    )
    state = {name: tensor for s in schedule.stages_of_rank[me.rank] for name, tensor in stages[s].state_dict().items()}
    return losses, {name.partition(".")[2]: g for name, g in gradients.items()}, state


@pytest.mark.first_cases(3)
@pytest.mark.parametrize("model_kind", ["text", "tied text"])
@pytest.mark.parametrize("kind", ["gpipe", "1f1b", "zb_h1", "interleaved", "zb_v"])
def test_a_transformer_reads_tokens_and_may_share_its_embedding_between_the_ends(cluster2, cluster4, kind, model_kind):
    """Four pieces: 4 stages on 4 ranks, or two on each of 2. In the V both ends are on rank 0."""
    run = (cluster4 if virtual_stages_of(kind) == 1 else cluster2).run(text, kind, model_kind)
    losses, gradients, state = by_one(
        model_of(model_kind), OPTIMIZERS["adamw"], batches(model_kind), loss_of_kind(model_kind)
    )
    assert_same(joined(its_gradients for _, its_gradients, _ in run), gradients)
    assert_same(joined(its_state for _, _, its_state in run), state)
    assert run[0 if kind == "zb_v" else run.world_size - 1][0] == pytest.approx(losses, rel=0, abs=1e-10)


# -- PyTorch's own ---------------------------------------------------------------------------------------------------


def beside_torch(me, kind):
    """Gradients by torch.distributed.pipelining, and by the course, of the same cut model."""
    from torch.distributed import pipelining as theirs

    torch_schedules = {
        "gpipe": theirs.ScheduleGPipe,
        "1f1b": theirs.Schedule1F1B,
        "interleaved": theirs.ScheduleInterleaved1F1B,
        "looped_bfs": theirs.ScheduleLoopedBFS,
        "zb_v": theirs.ScheduleZBVZeroBubble,
        "dualpipe_v": theirs.ScheduleDualPipeV,
    }
    schedule = get_schedule(kind, me.world_size, 4)
    stages = list(model(schedule.num_stages))
    x, y = next(iter(data(8)))
    mine = schedule.stages_of_rank[me.rank]
    parts = [theirs.PipelineStage(stages[s].to(me.device), s, len(stages), me.device) for s in mine]
    has_several = kind not in ("gpipe", "1f1b")
    step = torch_schedules[kind](parts if has_several else parts[0], n_microbatches=4, loss_fn=F.mse_loss).step
    step(*((x,) if 0 in mine else ()), target=y if is_last(me, schedule) else None)
    by_torch = {str(s): gradients_of(stages[s]) for s in mine}
    pipeline = Pipeline(me, list(model(len(stages))), schedule, F.mse_loss)
    pipeline.step(x, y)
    return by_torch, {s: gradients_of(stage) for s, stage in pipeline.stages.items()}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["gpipe", "1f1b", "interleaved", "looped_bfs", "zb_v", "dualpipe_v"])
def test_gradients_are_those_of_torch_distributed_pipelining(cluster2, kind):
    for theirs, ours in cluster2.run(beside_torch, kind):
        assert theirs.keys() == ours.keys()
        for stage, gradients in theirs.items():
            assert_same(ours[stage], gradients)


# -- messages, and schedules of any order ------------------------------------------------------------------------


def one_step(me, schedules):
    for schedule in schedules:
        pipeline = Pipeline(me, list(model(schedule.num_stages)), schedule, F.mse_loss)
        x, y = next(iter(data(8)))
        pipeline.step(x, y)


@pytest.mark.parametrize(("kind", "num_messages"), [("1f1b", [4, 8, 8, 4]), ("zb_v", [8, 16, 16, 8])])
def test_each_boundary_between_ranks_is_crossed_once_each_way_by_a_micro_batch(cluster4, kind, num_messages):
    """4 micro-batches of 2 samples with 5 numbers of 8 bytes; and, once, what shapes there will be."""
    schedule = get_schedule(kind, 4, 4)
    run = metered(cluster4, one_step, [schedule])
    crossing = [pair for pair in itertools.pairwise(schedule.rank_of_stage) if pair[0] != pair[1]]
    told = [sum(sender == rank for sender, _ in crossing) for rank in range(4)]
    bytes_sent = [80 * n + 4 * 11 * 8 * t for n, t in zip(num_messages, told, strict=True)]
    num_sent = [n + t for n, t in zip(num_messages, told, strict=True)]
    assert expect(run.communication, sent_bytes=bytes_sent, num_messages=num_sent) == []
    assert set(run.communication.by_operation()) == {"send", "recv"}


def shuffled(schedule, seed):
    """Another legal order: swap neighbours at random, wherever nothing is wrong afterwards."""
    rng = random.Random(seed)
    for _ in range(60):
        rows = [list(row) for row in schedule.rows]
        row = rng.choice(rows)
        place = rng.randrange(len(row) - 1)
        row[place : place + 2] = reversed(row[place : place + 2])
        other = schedule.with_actions(rows)
        schedule = schedule if validate(other) else other
    return schedule


def halved(schedule, seed):
    """Some whole backwards cut in two, at random."""
    rng = random.Random(seed)
    rows = []
    for row in schedule.rows:
        cells = []
        for action in row:
            split = action.kind == "B" and rng.random() < 0.5
            cells += [action._replace(kind="I"), action._replace(kind="W")] if split else [action]
        rows.append(cells)
    return schedule.with_actions(rows)


def gradients_by_schedule(me, schedules):
    found = []
    for schedule in schedules:
        pipeline = Pipeline(me, list(model(schedule.num_stages)), schedule, F.mse_loss)
        x, y = next(iter(data(9)))
        pipeline.step(x, y)
        found.append((gradients_of(pipeline.stages), pipeline.peak_in_flight))
    return found


@pytest.mark.long
@pytest.mark.limit_s(120)
@pytest.mark.parametrize("num_ranks", [2, 3, 4])
def test_whatever_the_validator_accepts_runs_to_its_end_with_the_same_gradients(clusters, num_ranks):
    kinds = ["naive", "gpipe", "1f1b", "interleaved", "zb_v", "looped_bfs"]
    schedules = [shuffled(halved(get_schedule(kind, num_ranks, 4), seed), seed) for seed, kind in enumerate(2 * kinds)]
    run = clusters(num_ranks).run(gradients_by_schedule, schedules)
    for number, schedule in enumerate(schedules):
        whole, (x, y) = model(schedule.num_stages), next(iter(data(9)))
        F.mse_loss(whole(x), y).backward()
        assert_same(joined(found[number][0] for found in run), gradients_of(whole))
        peaks = joined(found[number][1] for found in run)
        assert peaks == dict(enumerate(peak_in_flight_by_stage(schedule)))


def test_ranks_may_hold_stages_in_any_places_or_none(clusters):
    """Stages 0 and 3 on rank 2, 1 and 2 on rank 0, and rank 1 has nothing to do."""
    rows: list[list[Action]] = [[], [], []]
    for kind, stages in (("F", range(4)), ("B", range(3, -1, -1))):
        for stage in stages:
            rows[(2, 0, 0, 2)[stage]].append(Action(kind, stage, 0))
    schedule = Schedule("odd", 1, (2, 0, 0, 2), tuple(map(tuple, rows)))
    assert steps_of(schedule)[1] == ()
    run = clusters(3).run(gradients_by_schedule, [schedule])
    whole, (x, y) = model(4), next(iter(data(9)))
    F.mse_loss(whole(x), y).backward()
    assert_same(joined(found[0][0] for found in run), gradients_of(whole))
