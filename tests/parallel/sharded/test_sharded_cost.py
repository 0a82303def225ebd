"""What sharding costs: bytes exactly by the formula, memory within two per cent of it, at its peak and in between."""

from __future__ import annotations

import time

import pytest
import sharded_cases
import torch
from torch import nn

from course_lib.cost import (
    UnitSizes,
    largest_by_phase,
    sharded_moments,
    sharded_sent_bytes,
    shared_numel,
    step_moments,
)
from course_lib.meter import MemoryLedger, metered
from course_lib.parallel.sharded import FullySharded, ShardedOptimizer, watched_step
from course_lib.widgets.sharded_choice import Choice

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
    sharded_cases.loss_of(model, x, y).backward()
    opt.step()


def sent(run, rank: int) -> int:
    names = ("all_gather", "all_to_all")  # on gloo a lean reduce-scatter
    return sum(
        sum(call.sent_bytes.values())
        for call in calls_of_the_step(run, rank)
        if call.operation.startswith(names)
    )


def shapes_of(model: nn.Module, *, trained: bool = False) -> list[tuple[int, ...]]:
    return [tuple(p.shape) for p in model.parameters() if p.requires_grad or not trained]


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
    return tuple(
        min(bytes_) for bytes_ in zip(*(bytes_of_a_step(model, opt, x) for _ in range(16)), strict=True)
    )


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


@pytest.mark.parametrize("num_ranks", [2, 4])
@pytest.mark.parametrize(
    "wrapping",
    [{"prefetch": 0}, {"prefetch": 1}, {"prefetch": 2}, {"prefetch": 0, "reshard_after_forward": False}],
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
        last_forward = [m for m in moments if m.what.startswith("forward")][-1]
        let_go = 0 if wrapping.get("reshard_after_forward") is False else WIDTH * WIDTH * 4
        assert between == pytest.approx(last_forward.total - let_go, rel=0.02)
        assert after == pytest.approx(moments[-1].total, rel=0.02)


STEPS = [
    Choice(0, 2, 3),
    Choice(1, 2, 3),
    Choice(2, 2, 3),
    Choice(3, 2, 3, prefetch=1),
    Choice(3, 2, 3, reshard_after_forward=False),
]
MORE_STEPS = [
    Choice(stage, num_ranks, per_unit) for stage in range(4) for num_ranks in (2, 4) for per_unit in (1, 12)
] + [Choice(3, 4, 2, prefetch=2), Choice(3, 4, 2, 1, reshard_after_forward=False)]


@pytest.mark.parametrize(
    "choice", [*STEPS, *(pytest.param(one, marks=pytest.mark.long) for one in MORE_STEPS)], ids=str
)
def test_every_part_of_a_step_of_every_stage_holds_what_the_formula_says(clusters, choice):
    run = watched_step(clusters(choice.num_ranks), **choice.settings, num_steps=16)
    for rank, measured in enumerate(run):
        model = {moment.phase: moment.total for moment in choice.phases(rank)}
        assert dict(zip(model, measured, strict=True)) == pytest.approx(model, rel=0.02)


def numbers(moments) -> list[tuple[str, int]]:
    return [(moment.what, moment.total) for moment in moments]


def test_the_moments_of_stages_0_to_2_by_hand():
    units = [
        UnitSizes(8, 4),
        UnitSizes(4, 2),
    ]  # two ranks; a number has 4 bytes, and AdamW keeps two more of each
    ddp = step_moments(units, stage=0, num_ranks=2)
    assert numbers(ddp) == [
        ("before the step", 12 * 16),
        ("forward of unit 0", 12 * 16),
        ("forward of unit 1", 12 * 16),
        ("backward of unit 1", 12 * 16 + 16),  # a gradient, beside its place in the bucket
        ("backward of unit 0", 12 * 16 + 32),
        ("the optimizer has stepped", 12 * 16),
    ]
    kept = 12 * 4 + 6 * 8
    first = step_moments(units, stage=1, num_ranks=2)
    assert numbers(first)[3:] == [
        ("backward of unit 1", kept + 16),
        ("backward of unit 0", kept + 48),
        ("gradients of unit 1 are packed", kept + 48 + 32),
        ("gradients have come", kept + 48 + 32 + 8),
        ("gradients of unit 0 are packed", kept + 48 + 8 + 64),
        ("gradients have come", kept + 48 + 8 + 64 + 16),
        ("the optimizer has stepped", kept + 48 + 24),
        ("weights of unit 1 come", kept + 48 + 24 + 3 * 24),  # both buckets: what is sent, and what comes
        ("weights of unit 0 come", kept + 48 + 24 + 3 * 16),
        ("after the step", kept + 48),
    ]
    second = step_moments(units, stage=2, num_ranks=2)
    assert numbers(second)[3:9] == [
        ("backward of unit 1", kept + 16),
        ("gradients of unit 1 are packed", kept + 16 + 32),
        ("backward of unit 0", kept + 32 + 32),
        ("gradients have come", kept + 32 + 32 + 8),
        ("gradients of unit 0 are packed", kept + 32 + 8 + 64),
        ("gradients have come", kept + 8 + 64 + 16),
    ]
    assert [moment.phase for moment in second][:6:5] == ["before", "backward of unit 0"]


def test_a_part_of_a_step_is_its_largest_moment():
    moments = step_moments([UnitSizes(8, 4)], stage=2, num_ranks=2)
    largest = largest_by_phase(moments)
    assert list(largest) == ["before", "forward of unit 0", "backward of unit 0", "optimizer"]
    assert max(moments, key=lambda moment: moment.total) in largest.values()
    assert largest["backward of unit 0"].what == "gradients of unit 0 are packed"


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        ({"stage": 4}, r"stage=4 is not known: .* The nearest is 3\."),
        ({"optimizer": "adamv"}, r"optimizer is 'adamv'; .* Did you mean 'adam'\?"),
        ({"dtype": "float23"}, r"dtype is 'float23'; .* Did you mean 'float32'\?"),
        ({"prefetch": -1}, "prefetch=-1 does not work"),
        ({"largest_numel": -1}, "largest_numel=-1 does not work"),
        ({"units": []}, "num_units=0 does not work"),
    ],
)
def test_what_has_no_moments_gets_a_sentence(bad, sentence):
    with pytest.raises(ValueError, match=sentence):
        step_moments(**{"units": [UnitSizes(8, 4)], "stage": 1, "num_ranks": 2, **bad})


def test_a_step_that_cannot_be_watched_gets_a_sentence():
    with pytest.raises(ValueError, match=r"stage=4 is not known: it is 0 \(DDP\), 1, 2 or 3\."):
        watched_step(None, stage=4, num_layers=1, width=1)
    with pytest.raises(ValueError, match="per_unit=0 does not work"):
        watched_step(None, stage=3, num_layers=1, width=1, per_unit=0)
