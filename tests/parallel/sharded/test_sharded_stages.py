"""The memory of a step in every stage: by hand, and beside the ledger, part by part."""

from __future__ import annotations

import pytest

from course_lib.cost import UnitSizes, largest_by_phase, step_moments
from course_lib.parallel.sharded import watched_step
from course_lib.widgets.sharded.choice import ShardedChoice

pytestmark = [
    pytest.mark.xdist_group("sharded"),
    pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning"),
]

STEPS = [
    ShardedChoice(0, 2, 3),
    ShardedChoice(1, 2, 3),
    ShardedChoice(2, 2, 3),
    ShardedChoice(3, 2, 3, prefetch=1),
    ShardedChoice(3, 2, 3, reshard_after_forward=False),
]
MORE_STEPS = [
    ShardedChoice(stage, num_ranks, per_unit) for stage in range(4) for num_ranks in (2, 4) for per_unit in (1, 12)
] + [ShardedChoice(3, 4, 2, prefetch=2), ShardedChoice(3, 4, 2, 1, reshard_after_forward=False)]


@pytest.mark.first_cases(1)
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
    # Two ranks; a number has 4 bytes, and AdamW keeps two more of each.
    units = [UnitSizes(8, 4), UnitSizes(4, 2)]
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
