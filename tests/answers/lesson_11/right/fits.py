"""Right answers to 11.fits in other styles than the lesson's, and mutants of its solution that are as right."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from typing import Any

import numpy as np

from course_lib.plan import Job, Layout
from course_lib.plan.estimate.stage_memory import BytesEach

__all__ = ["ANSWERS", "SAME"]


def by_counting(job: Job, layout: Layout, stage: int, each: BytesEach) -> dict[str, float]:
    """Layer by layer, micro-batch by micro-batch."""
    model, parts = job.model, defaultdict[str, float](float)
    own = range(stage * model.layers // layout.pp, (stage + 1) * model.layers // layout.pp)
    numbers = [model.layer_parameters for _ in own]
    numbers += [model.embedding_parameters] if stage == 0 else []
    numbers += [model.embedding_parameters] if stage + 1 == layout.pp else []
    shares = {name: layout.dp if layout.sharding > place else 1 for place, name in enumerate("ogw")}
    for number in numbers:
        parts["weights"] += number * each.weight / layout.tp / shares["w"]
        parts["gradients"] += number * each.gradient / layout.tp / shares["g"]
        parts["optimizer"] += number * each.optimizer / layout.tp / shares["o"]
    tokens = layout.micro_batch * job.seq / layout.tp
    begun = range(layout.num_micro_batches(job.batch))[: layout.pp - stage]
    for _ in begun:
        for _ in own:
            parts["activations"] += tokens * (each.layer if layout.recompute == "none" else each.input)
    if layout.recompute == "full":
        parts["activations"] += tokens * each.layer
    parts["logits"] = tokens * model.vocab * each.logit if stage + 1 == layout.pp else 0
    return dict(parts)


def in_fractions(job: Job, layout: Layout, stage: int, each: BytesEach) -> dict[str, Fraction]:
    """Exact numbers; states by what stays whole."""
    model = job.model
    layers = Fraction(model.layers, layout.pp)
    ends = {0, layout.pp - 1}
    tables = (2 if layout.pp == 1 else 1) if stage in ends else 0
    numbers = (layers * model.layer_parameters + tables * model.embedding_parameters) / layout.tp
    whole = {
        0: (),
        1: ("optimizer",),
        2: ("optimizer", "gradients"),
        3: ("optimizer", "gradients", "weights"),
    }
    sizes = {"weights": each.weight, "gradients": each.gradient, "optimizer": each.optimizer}
    states = {
        name: Fraction(size) * numbers / (layout.dp if name in whole[layout.sharding] else 1)
        for name, size in sizes.items()
    }
    of_a_layer = Fraction(layout.micro_batch * job.seq, layout.tp)
    waiting = min(layout.pp - stage, -(-job.batch // (layout.dp * layout.micro_batch)))
    if layout.recompute == "full":
        activations = of_a_layer * (waiting * layers * Fraction(each.input) + Fraction(each.layer))
    else:
        activations = of_a_layer * waiting * layers * Fraction(each.layer)
    logits = of_a_layer * model.vocab * Fraction(each.logit) if stage == max(ends) else Fraction(0)
    return states | {"activations": activations, "logits": logits}


def with_numpy(job: Job, layout: Layout, stage: int, each: BytesEach) -> dict[str, Any]:
    """States as a product of two rows."""
    model = job.model
    numbers = model.layers * model.layer_parameters / layout.pp
    numbers += model.embedding_parameters * np.equal(stage, [0, layout.pp - 1]).sum()
    ways = np.where(np.array([3, 2, 1]) <= layout.sharding, layout.dp, 1) * layout.tp
    states = numbers * np.array([each.weight, each.gradient, each.optimizer]) / ways
    tokens = layout.micro_batch * job.seq
    kept = np.minimum(layout.pp - stage, layout.num_micro_batches(job.batch)) * model.layers / layout.pp
    recomputed = layout.recompute != "none"
    activations = tokens / layout.tp * (kept * (each.layer, each.input)[recomputed] + recomputed * each.layer)
    logits = np.where(stage == layout.pp - 1, each.logit * tokens * model.vocab / layout.tp, 0.0)
    return dict(
        zip(
            ("weights", "gradients", "optimizer", "activations", "logits"),
            [*states, activations, logits.item()],
            strict=True,
        )
    )


def by_branches(job: Job, layout: Layout, stage: int, each: BytesEach) -> dict[str, float]:
    """An if for each thing that may be."""
    model, tp, dp = job.model, layout.tp, layout.dp
    layers = model.layers // layout.pp
    numbers = layers * model.layer_parameters
    if stage == 0:
        numbers += model.embedding_parameters
    if stage == layout.pp - 1:
        numbers += model.embedding_parameters
    found = {
        "logits": 0.0,
        "optimizer": each.optimizer * numbers / tp,
        "gradients": each.gradient * numbers / tp,
        "weights": each.weight * numbers / tp,
    }
    if layout.sharding >= 1:
        found["optimizer"] /= dp
    if layout.sharding >= 2:
        found["gradients"] /= dp
    if layout.sharding >= 3:
        found["weights"] /= dp
    tokens = layout.micro_batch * job.seq
    in_flight = layout.pp - stage
    if layout.num_micro_batches(job.batch) < in_flight:
        in_flight = layout.num_micro_batches(job.batch)
    found["activations"] = in_flight * layers * each.layer * tokens / tp
    if layout.recompute == "full":
        found["activations"] = (in_flight * layers * each.input + each.layer) * tokens / tp
    if stage == layout.pp - 1:
        found["logits"] = each.logit * tokens * model.vocab / tp
    return found


ANSWERS = (by_counting, in_fractions, with_numpy, by_branches)
_APART = "Neither line reads what the other makes."
SAME: dict[str, str] = {
    "1: `model, layers = (job.model, job.model.layers / layout.pp)` after "
    "`is_first, is_last = (stage == 0, stage == layout.pp - 1)`": _APART,
    "4: `numbers /= layout.tp` -> a new name for a new value": "A number cannot be changed in place.",
    "5: `share = {part: numbers / (layout.dp if layout.sharding >= part else 1) for part in (1, 2, 3)}` after "
    "`tokens = layout.micro_batch * job.seq / layout.tp`": _APART,
    "6: `tokens = layout.micro_batch * job.seq / layout.tp` after "
    "`in_flight = min(layout.pp - stage, layout.num_micro_batches(job.batch))`": _APART,
    "7: `min(layout.pp - stage, layout.num_micro_batches(job.batch))` -> "
    "`min(layout.num_micro_batches(job.batch), layout.pp - stage)`": "The smaller of two is the same.",
    "rank_bytes: gradients switched off": "There is no tensor in it.",
}
