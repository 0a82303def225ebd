"""Part b of lesson 11, its first half: terms of the formula, each by two published runs that differ in one thing."""

from __future__ import annotations

from collections.abc import Sequence

from course_lib.learn.catalogue.prediction_spec import Asked, Explanation
from course_lib.learn.exercises.lesson_11.predictions.step_words import largest_parts, parts_of
from course_lib.plan.runs.replayed import Replayed

__all__ = ["TERMS"]


def _slots_of(run: Replayed) -> tuple[int, int]:
    """Micro-batches of a pipeline, and its stages."""
    layout = run.of.run.layout
    return layout.num_micro_batches(run.of.run.job.batch), layout.pp


def _slots(before: Replayed, after: Replayed) -> Explanation:
    """From two runs of one job in three axes, the second on more GPUs along the data axis: beyond the ideal, in %."""
    (many, stages), (few, _) = _slots_of(before), _slots_of(after)
    bubble, ideal_s = stages - 1, before.measured_s * few / many
    model = 100 * ((few + bubble) / few * many / (many + bubble) - 1)
    return Explanation(
        measured=round(100 * (after.measured_s / ideal_s - 1), 1),
        model=round(model, 1),
        label="published",
        because=f"The second step took {after.measured_s:.1f} s. With {stages} stages, {many} micro-batches take "
        f"{many + bubble} slots, and {few} take {few + bubble}. By the slots alone the second step is "
        f"{ideal_s * (1 + model / 100):.1f} s. The bubble has {bubble} slots in both runs, and so it grew from "
        f"{bubble / (many + bubble):.0%} of the step to "
        f"{bubble / (few + bubble):.0%}. So the data axis cost nearly nothing.",
        misreadings={
            0: "That would be so if a step had no bubble. The bubble does not shrink with the micro-batches.",
            round(100 * bubble / many, 1): "That is what the bubble adds to the first run. The second has a quarter "
            "of the micro-batches, and a bubble of the same size.",
            round(
                100 * bubble / few, 1
            ): "That is what the bubble adds to the second run. The first run, whose step you divide by four, had a "
            "bubble as well.",
            lambda percent: (
                percent > 2 * model
            ): "The data axis does not take so much: it sends gradients once a step, and only those of a rank's own "
            "part of the model.",
        },
        apart="Was another pair of runs taken?",
    )


def _fourfold(before: Replayed, after: Replayed, others: Sequence[Replayed]) -> Explanation:
    """From two runs of ZeRO-3, the second on four times the GPUs, and two runs of the other layout on as many."""
    times = after.gpus / before.gpus
    ideal = before.measured_s / times
    three = [f"{run.measured_s:.1f} s on {run.gpus:,}" for run in others]
    dp, batch = after.of.run.layout.dp, after.of.run.job.batch
    return Explanation(
        measured=round(after.measured_s, 1),
        model=round(after.predicted_s, 1),
        label="published",
        because=f"Four times the GPUs give {before.measured_s / after.measured_s:.1f} times the speed. {batch:,} "
        f"sequences for {dp:,} ranks are {batch // dp} for each. For each micro-batch, however small, ZeRO-3 gathers "
        "all weights, again for backward, and sends all gradients. Computing shrinks to a quarter, and the messages "
        f"do not. The largest parts by the planner: {largest_parts(parts_of(after), 2)}. The other layout, tensor and "
        "pipeline axes within each "
        f"replica, takes {' and '.join(three)}.",
        misreadings={
            lambda seconds: (
                seconds < 1.3 * ideal
            ): "Computing alone would take a quarter of the time. What does each rank send, and does that depend on "
            "the number of ranks?",
            lambda seconds: (
                1.3 * ideal <= seconds < 0.8 * after.measured_s
            ): "You are right that something does not shrink. But that part is larger: the weights of the whole model "
            "go through every rank's link.",
            lambda seconds: (
                seconds > before.measured_s
            ): f"It did not become slower than on fewer GPUs: it took {after.measured_s / before.measured_s:.0%} of "
            "the time on four times the GPUs.",
        },
        apart="Was the planner changed? Print the parts of the run.",
    )


TERMS: tuple[Asked, ...] = (
    Asked(
        name="11.slots",
        question="Three axes on 1,536 GPUs: how much longer than a quarter of the step on 384?",
        unit="%",
        tell=_slots,
        high=1000,
    ),
    Asked(
        name="11.fourfold",
        question="ZeRO-3 on 1,536 GPUs: how long is a step?",
        unit="s",
        tell=_fourfold,
        high=10_000,
    ),
)
