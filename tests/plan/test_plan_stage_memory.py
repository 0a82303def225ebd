"""The bytes of a rank by hand: the planner's own numbers where it knows no more, and sentences about bad values."""

from __future__ import annotations

from dataclasses import replace

import pytest

from course_lib.base.paths import project_root
from course_lib.plan import (
    Constants,
    Decoder,
    Job,
    Layout,
    Software,
    cluster_of,
    decoder,
    layer_activation_bytes,
    memory_parts,
    read_runs,
)
from course_lib.plan.estimate.stage_memory import BytesEach, stage_bytes

# Without norms all numbers of a layer lie in matrices, which a tensor axis cuts.
MODEL = replace(decoder("llama-3-8b"), norm_parameters=0)
JOB = Job(MODEL, seq=8192, batch=64)
SOFTWARE = Software(layers_by_cost=False, gradient_bytes=2, reduce_bytes=2, keeps_gathered=False)
EACH = BytesEach(
    weight=2,
    gradient=2,
    optimizer=12,
    layer=layer_activation_bytes(MODEL, Layout(), 1, SOFTWARE),
    input=2 * MODEL.hidden,
    logit=10,
)
ALIKE = [  # layouts in which the planner knows no more than the lesson's arithmetic
    Layout(),
    Layout(recompute="full"),
    Layout(micro_batch=4),
    Layout(dp=8),
    Layout(dp=8, sharding=1),
    Layout(dp=8, sharding=2),
    Layout(tp=8, sequence_parallel=True),
    Layout(tp=2, dp=4, micro_batch=2, sharding=2, recompute="full", sequence_parallel=True),
]
HANDED = 12 * 8192 * 4096  # of a micro-batch: what a pipeline keeps to receive it and to hand it on


@pytest.mark.parametrize("layout", ALIKE, ids=str)
def test_on_one_stage_it_is_the_planner_to_the_byte(layout: Layout) -> None:
    found = stage_bytes(JOB, layout, 0, EACH)
    machine = cluster_of("8xh100", gpus=layout.gpus)
    wanted = memory_parts(JOB, layout, machine, Constants(), SOFTWARE)
    for name, size_bytes in found.items():
        assert size_bytes == pytest.approx(getattr(wanted, f"{name}_bytes"), rel=1e-12), name


@pytest.mark.parametrize("recompute", ["none", "full"])
def test_in_a_pipeline_it_is_the_planner_but_for_what_is_handed_on(recompute: str) -> None:
    layout = Layout(pp=4, recompute=recompute)
    machine = cluster_of("8xh100", gpus=4)
    wanted = memory_parts(JOB, layout, machine, Constants(), SOFTWARE)  # of the fullest stage
    stages = [stage_bytes(JOB, layout, stage, EACH) for stage in range(4)]
    fullest = max(range(4), key=lambda stage: sum(stages[stage].values()) + (4 - stage) * HANDED)
    found = stages[fullest]
    assert found["activations"] + (4 - fullest) * HANDED == pytest.approx(wanted.activations_bytes, rel=1e-12)
    assert found["weights"] == pytest.approx(wanted.weights_bytes, rel=1e-12)
    assert found["optimizer"] == pytest.approx(wanted.optimizer_bytes, rel=1e-12)
    assert found["logits"] == wanted.logits_bytes


def test_few_micro_batches_fill_no_pipeline() -> None:
    few = Job(MODEL, seq=8192, batch=2)
    kept = [stage_bytes(few, Layout(pp=4), stage, EACH)["activations"] for stage in range(4)]
    a_stage = 8 * EACH.layer * 8192
    assert kept == pytest.approx([2 * a_stage, 2 * a_stage, 2 * a_stage, a_stage])


def test_bad_values_get_a_sentence() -> None:
    with pytest.raises(ValueError, match=r"stage is 4; stages are numbered 0 to 3. The nearest is 3"):
        stage_bytes(JOB, Layout(pp=4), 4, EACH)
    with pytest.raises(ValueError, match=r"stage is -1; .* The nearest is 0"):
        stage_bytes(JOB, Layout(), -1, EACH)
    with pytest.raises(ValueError, match=r"pp=5 does not work"):
        stage_bytes(JOB, Layout(pp=5), 0, EACH)
    with pytest.raises(ValueError, match=r"logit is -1 bytes; it is at least 0. The nearest is 0"):
        replace(EACH, logit=-1)


def test_the_lessons_published_memories_can_be_read_and_are_of_one_model() -> None:
    runs, refused = read_runs(project_root() / "assets" / "published" / "memory.csv")
    assert not refused
    assert len(runs) == 16
    assert len({run.job.model for run in runs}) == 1
    assert all(run.memory_bytes and not run.job.model.tied for run in runs)


def test_small_model_by_hand() -> None:
    """Four layers of 28 numbers, on two stages and two tensor ranks."""
    model = Decoder("tiny", 4, 2, 1, 3, 10, norm_parameters=0)  # attention 16, MLP 12 numbers
    assert model.layer_parameters == 28
    each = BytesEach(weight=1, gradient=10, optimizer=100, layer=7, input=2, logit=3)
    layout = Layout(tp=2, pp=2, dp=2, micro_batch=2, sharding=2)
    found = stage_bytes(Job(model, seq=5, batch=16), layout, 1, each)
    numbers = (2 * 28 + 20) / 2
    assert found == {
        "weights": numbers,
        "gradients": 10 * numbers / 2,
        "optimizer": 100 * numbers / 2,
        "activations": 2 * 5 / 2 * 2 * 7,
        "logits": 3 * 2 * 5 * 10 / 2,
    }
