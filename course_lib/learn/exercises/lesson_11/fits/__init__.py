"""11.fits: what a rank of one stage of a pipeline needs, by part."""

from __future__ import annotations

from typing import Any

from course_lib.learn.catalogue.exercise import Case, Exercise
from course_lib.learn.exercises.lesson_11.fits import wrong_answers
from course_lib.learn.judging.compare import close_to
from course_lib.learn.judging.judge import by_cases
from course_lib.plan import Decoder, Job, Layout
from course_lib.plan.estimate.stage_memory import BytesEach, stage_bytes

__all__ = ["CASES", "FITS_EXERCISE"]

# Sizes without a common factor, so that no part is taken for another.
_SMALL = Decoder("small", 12, 96, 4, 352, 1009, kv_heads=2, gated=True, norm_parameters=1)
_DEEP = Decoder("deep", 24, 64, 8, 256, 4001, norm_parameters=1)
_HALF = BytesEach(weight=2, gradient=2, optimizer=12, layer=5003, input=192, logit=10)
_FULL = BytesEach(weight=4, gradient=6, optimizer=9, layer=7001, input=131, logit=11)


def _case(label: str, model: Decoder, stage: int = 0, *, each: BytesEach = _HALF, **sizes: Any) -> Case:
    """``sizes`` are of the layout, and ``batch`` of the job."""
    job = Job(model, seq=128, batch=sizes.pop("batch", 64))
    return Case(label, (job, Layout(**sizes), stage, each), stage_bytes)


CASES = (
    _case("one GPU", _SMALL),
    _case("one GPU, and other bytes each", _DEEP, each=_FULL),
    _case("two sequences in a micro-batch", _SMALL, micro_batch=2),
    _case("a tensor axis of 4", _SMALL, tp=4, each=_FULL),
    _case("a data axis of 8", _SMALL, dp=8),
    *(
        _case(f"a data axis of 8, sharding {sharding}", _DEEP, dp=8, sharding=sharding, each=_FULL)
        for sharding in (1, 2, 3)
    ),
    *(_case(f"stage {stage} of 4", _SMALL, stage, pp=4) for stage in range(4)),
    _case("stage 0 of 6, with 3 micro-batches a step", _DEEP, 0, pp=6, batch=3),
    _case("stage 1 of 4, with 2 micro-batches on each of 3 data ranks", _SMALL, 1, pp=4, dp=3, batch=6),
    _case("stage 0 of 4, with 5 sequences in micro-batches of 2", _SMALL, pp=4, micro_batch=2, batch=5),
    _case("all layers computed again", _SMALL, recompute="full", each=_FULL),
    _case("stage 1 of 3, all layers computed again", _DEEP, 1, pp=3, recompute="full", micro_batch=2, each=_FULL),
    _case("the last of 2 stages, all layers computed again", _SMALL, 1, pp=2, recompute="full"),
    _case(
        "stage 0 of 2, a tensor axis of 2, a data axis of 4, sharding 1",
        _SMALL,
        tp=2,
        pp=2,
        dp=4,
        sharding=1,
    ),
    _case(
        "stage 2 of 4, a tensor axis of 2, a data axis of 2, sharding 3, all layers computed again",
        _DEEP,
        2,
        tp=2,
        pp=4,
        dp=2,
        sharding=3,
        recompute="full",
        each=_FULL,
    ),
)


FITS_EXERCISE = Exercise(
    name="11.fits",
    title="The bytes of a rank",
    judge=by_cases(CASES, compare=close_to(1e-9)),
    mistakes=wrong_answers.MISTAKES,
    hints=(
        "Begin with one GPU: which product is each of the five parts? Then add one axis at a time, and ask of each "
        "part whether this axis cuts it.",
        "States: numbers of the stage, divided by tp, and also by dp if `layout.sharding` is high enough to cut the "
        "part. "
        "Activations: tokens of a micro-batch, divided by tp, times the stage's layers, times the micro-batches in "
        "flight, `min(pp - stage, m)`. Logits: tokens of a micro-batch times the vocabulary, divided by tp, on the "
        "last stage.",
        "`numbers = (model.layers / layout.pp * model.layer_parameters + tables * model.embedding_parameters) / "
        "layout.tp`, where `tables = (stage == 0) + (stage == layout.pp - 1)`. The optimizer has "
        "`numbers / (layout.dp if layout.sharding >= 1 else 1)`. Recomputed: `in_flight * layers * each.input + "
        "each.layer` for each token.",
    ),
    forbidden=("course_lib.plan.estimate.stage_memory.stage_bytes",),
    passed="Every part is divided by the axes that cut it, and by no other.",
)
