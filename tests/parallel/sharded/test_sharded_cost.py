"""What sharding costs: bytes exactly by the formula, memory within two per cent of it, at its peak and in between."""

from __future__ import annotations

import time

import pytest
import sharded_cases
import torch
from torch import nn

from course_lib.cost import UnitSizes, sharded_moments, sharded_sent_bytes, shared_numel
from course_lib.meter import MemoryLedger, metered
from course_lib.parallel.sharded import FullySharded, ShardedOptimizer

pytestmark = [
    pytest.mark.xdist_group("sharded"),
    pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning"),
]

BATCHES = {"odd": sharded_cases.odd, "transformer": sharded_cases.transformer}


def one_step(me, make, wrapping):
    model = FullySharded(me, make(), **wrapping)
    x, y = (sharded_cases.own(me, t) for t in sharded_cases.batch_for(make, me.world_size))
    torch.distributed.barrier()  # what comes before it is told apart by it
    sharded_cases.loss_of(model, x, y).backward()


def calls_of_the_step(run, rank: int) -> list:
    calls = [call for call in run.communication.calls if call.rank == rank]
    names = [call.operation for call in calls]
    return calls[names.index("barrier") + 1 :] if "barrier" in names else calls


def one_step_of_stage(me, make, stage):
    model = make()
    opt = ShardedOptimizer(me, model.parameters(), torch.optim.AdamW, stage=stage, lr=0.01)
    x, y = (sharded_cases.own(me, t) for t in sharded_cases.batch_for(make, me.world_size))
    torch.distributed.barrier()  # what comes before it is told apart by it
    sharded_cases.loss_of(model, x, y).backward()
    opt.step()


def sent(run, rank: int) -> int:
    names = ("all_gather", "all_to_all")  # on gloo a lean reduce-scatter
    return sum(
        sum(call.sent_bytes.values()) for call in calls_of_the_step(run, rank) if call.operation.startswith(names)
    )


def shapes_of(model: nn.Module, *, trained: bool = False) -> list[tuple[int, ...]]:
    return [tuple(p.shape) for p in model.parameters() if p.requires_grad or not trained]


@pytest.mark.first_cases(3)
@pytest.mark.parametrize("num_ranks", [2, 3, 4])
@pytest.mark.parametrize("reshard", [True, False])
def test_stage_3_sends_three_times_or_twice_its_share(clusters, num_ranks, reshard):
    make = sharded_cases.transformer
    run = metered(clusters(num_ranks), one_step, make, {"reshard_after_forward": reshard})
    expected = sharded_sent_bytes(
        shapes_of(make()), stage=3, num_ranks=num_ranks, dtype="float64", reshard_after_forward=reshard
    )
    assert [sent(run, rank) for rank in range(num_ranks)] == [expected] * num_ranks


@pytest.mark.parametrize("num_ranks", [2, 3, 4])
@pytest.mark.parametrize("stage", [1, 2])
def test_stages_1_and_2_send_what_an_all_reduce_would(clusters, num_ranks, stage):
    make = sharded_cases.odd
    run = metered(clusters(num_ranks), one_step_of_stage, make, stage)
    shapes = shapes_of(make(), trained=True)
    expected = sharded_sent_bytes(shapes, stage=stage, num_ranks=num_ranks, dtype="float64")
    assert [sent(run, rank) for rank in range(num_ranks)] == [expected] * num_ranks
    numel = sum(torch.Size(shape).numel() for shape in shapes)
    assert expected >= 2 * (num_ranks - 1) / num_ranks * numel * 8  # the rest is padding
    if num_ranks == 2:
        padding = 2 * shared_numel(shapes, 2) - numel
        assert expected == (numel + padding) * 8


def test_one_message_for_each_unit_and_direction(clusters):
    run = metered(clusters(2), one_step, sharded_cases.transformer, {})
    num_units = 4  # three blocks, and the rest
    names = [call.operation for call in calls_of_the_step(run, 0)]
    assert sum(name.startswith("all_gather") for name in names) == 2 * num_units
    assert sum(name.startswith("all_to_all") for name in names) == num_units


# -- memory -------------------------------------------------------------------------------------------------------

NUM_LAYERS, WIDTH = 12, 130  # 130 rows on four ranks: two of padding


def layers() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(*[nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(NUM_LAYERS)])


def ledgers_of_a_step(me, wrapping):
    model = FullySharded(me, layers(), **wrapping)
    opt = torch.optim.AdamW(model.parameters())
    x = torch.randn(1, WIDTH)
    for _ in range(2):  # the second knows the order of units
        opt.zero_grad()
        model(x).sum().backward()
        opt.step()
    return tuple(min(bytes_) for bytes_ in zip(*(bytes_of_a_step(model, opt, x) for _ in range(16)), strict=True))


def bytes_of_a_step(model, opt, x) -> tuple[int, int, int]:
    """The least of several: gloo's thread may hold a buffer for a moment longer than the message takes."""
    opt.zero_grad()
    with MemoryLedger(model, opt, inputs=x) as ledger:
        loss = model(x).sum()
        between = ledger.mark("between").total_bytes
        loss.backward()
        time.sleep(0.01)
        after = ledger.mark("after").total_bytes
    return ledger.peak().total_bytes, between, after


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(
    ("num_ranks", "wrapping"),
    [
        *((2, {"prefetch": prefetch}) for prefetch in (0, 1, 2)),
        *((4, {"prefetch": prefetch}) for prefetch in (0, 1, 2)),
        *((n, {"prefetch": 0, "reshard_after_forward": False}) for n in (2, 4)),
        (4, {"prefetch": 1, "reshard_after_forward": 2}),
        pytest.param(4, {"prefetch": 0, "reshard_after_forward": 2}, marks=pytest.mark.long),
    ],
    ids=str,
)
def test_memory_is_that_of_the_formula(clusters, num_ranks, wrapping):
    part = -(-WIDTH // num_ranks) * WIDTH
    moments = sharded_moments([UnitSizes(WIDTH * WIDTH, part)] * NUM_LAYERS, num_ranks=num_ranks, **wrapping)
    run = clusters(num_ranks).call(ledgers_of_a_step, (wrapping,), show=False)
    full, has_all_rows = run[0], (WIDTH % num_ranks == 0)
    assert has_all_rows or all(last < first for last, first in zip(run[num_ranks - 1], full, strict=True))
    for peak, between, after in list(run)[: None if has_all_rows else -1]:  # the last one keeps fewer rows
        assert peak == pytest.approx(max(moment.total for moment in moments), rel=0.02)
        last_forward = [m for m in moments if m.what.startswith("forward") or "is cut" in m.what][-1]
        let_go = 0 if wrapping.get("reshard_after_forward") is False else WIDTH * WIDTH * 4
        assert between == pytest.approx(last_forward.total - let_go, rel=0.02)
        assert after == pytest.approx(moments[-1].total, rel=0.02)


def peaks_of_stage(me, stage):
    """The peak in backward, and the peak of the step behind it; of several the least, as above."""
    model, x = layers(), torch.randn(1, WIDTH)
    opt = ShardedOptimizer(me, model.parameters(), torch.optim.AdamW, stage=stage, bucket_size_bytes=WIDTH * WIDTH * 4)
    peaks = []
    for _ in range(8):
        opt.zero_grad()
        with MemoryLedger(model, opt.inner, inputs=x) as backward:
            model(x).sum().backward()
            time.sleep(0.01)
        with MemoryLedger(model, opt.inner, inputs=x) as step:
            opt.step()
        peaks.append((backward.peak().total_bytes, step.peak().total_bytes))
    return tuple(min(bytes_) for bytes_ in zip(*peaks[1:], strict=True))  # the first has no states yet


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("num_ranks", [2, 4])
def test_stage_2_never_holds_the_whole_gradients(clusters, num_ranks):
    layer = WIDTH * WIDTH * 4
    whole, part = NUM_LAYERS * layer, NUM_LAYERS * -(-WIDTH // num_ranks) * WIDTH * 4
    between = whole + 2 * part  # weights, and AdamW's states of its own rows
    a_few = 5 * layer  # a layer's gradient, a bucket of one layer on its way, and what comes for it
    for stage, gradients in ((1, whole), (2, part)):
        for backward, step in clusters(num_ranks).call(peaks_of_stage, (stage,), show=False):
            assert between + gradients * 0.9 < backward < between + gradients + a_few
            assert step < between + gradients + a_few + part * (stage == 1)
