"""10.interleave: the steps of two micro-batches in an order in which the exchanges of each hide behind the other."""

from __future__ import annotations

import torch

from course_lib.learn.catalogue.exercise import Case, Exercise, Mistake
from course_lib.learn.exercises.lesson_10.interleave import mistakes
from course_lib.learn.exercises.lesson_10.interleave.trial import right, trial
from course_lib.learn.judging.errors import error_says
from course_lib.learn.judging.isolated_judge import by_cases_apart
from course_lib.learn.judging.report import compare, only_wrong

__all__ = ["INTERLEAVE"]

_CASES = {
    "one layer": (1, 4, 4),
    "two layers": (2, 3, 3),
    "four layers": (4, 2, 2),
    "micro-batches of unlike size": (3, 5, 2),
    "a micro-batch without tokens": (2, 3, 0),
    "no tokens at all": (2, 0, 0),
    "other values of the same sizes": (2, 3, 3, 1),
    "numbers in float32": (2, 3, 3, 2, torch.float32),
}

INTERLEAVE = Exercise(
    name="10.interleave",
    title="Two micro-batches, by turns",
    judge=by_cases_apart([Case(label, args, right) for label, args in _CASES.items()], call=trial, compare=compare),
    mistakes=(
        Mistake(
            "in-flight",
            "A step was given an exchange that is in flight, and not what it brings. `dispatch` and `combine` return "
            "at once; `wait()` returns what has come.",
            recognise=error_says("an exchange in flight"),
        ),
        Mistake(
            "leaves-in-flight",
            "Your function returns while an exchange is still in flight. Its caller needs tensors as outputs: wait "
            "for the last two exchanges, too.",
            recognise=mistakes.leaves_in_flight,
        ),
        Mistake(
            "swapped",
            "Both outputs are right, but they have changed places. Return first that of `a`, then that of `b`.",
            recognise=mistakes.is_swapped,
        ),
        Mistake(
            "one-twice",
            "Both outputs are those of one micro-batch. Look which name each step is given.",
            recognise=mistakes.has_one_twice,
        ),
        Mistake(
            "cut-off",
            "The outputs are right, but gradients do not come back as they should. Something cuts autograd's graph, "
            "such as `detach()`, `torch.no_grad()` or `.data`.",
            recognise=only_wrong("gradients"),
        ),
        Mistake(
            "computes-twice",
            "The outputs are right, but steps were computed more than once for a layer and a micro-batch. Keep what a "
            "step gives.",
            recognise=mistakes.computes_twice,
        ),
        Mistake(
            "leaves-steps-out",
            "Steps were left out. A rank without tokens takes part, too: others wait for its part of each exchange. "
            "Let a micro-batch of 0 tokens go through all steps.",
            recognise=mistakes.leaves_steps_out,
        ),
        Mistake(
            "waits-at-once",
            "The outputs are right, but nothing is computed between the start of an exchange and its wait: no "
            "exchange is hidden. Start it, compute a step of the other micro-batch, and then wait.",
            recognise=mistakes.waits_at_once,
        ),
        Mistake(
            "waits-for-combine",
            "Exchanges on the way to the experts are hidden behind computing, and those on the way back are not. What "
            "can be computed while an output is on its way back?",
            recognise=mistakes.waits_for_combine,
        ),
        Mistake(
            "waits-for-dispatch",
            "Exchanges on the way back are hidden behind computing, and those on the way to the experts are not. What "
            "can be computed while rows are on their way to the experts?",
            recognise=mistakes.waits_for_dispatch,
        ),
        Mistake(
            "computes-first",
            "Somewhere two steps are computed, and then both exchanges are started. The first exchange could start as "
            "soon as its own step is done, and run during the second step.",
            recognise=mistakes.computes_first,
        ),
        Mistake(
            "between-layers",
            "All is right within a layer. At its end you wait for both micro-batches, so the second one's way back is "
            "not hidden. While the second comes back, the first can begin with the next layer.",
            recognise=mistakes.between_layers,
        ),
        Mistake(
            "waits-too-early",
            "Somewhere you wait although a step could be computed first, or start an exchange later than you could. "
            "Go through your `wait()`s: which step after each of them does not need what it brings? Put that step "
            "before the wait.",
            recognise=only_wrong("waited"),
        ),
    ),
    hints=(
        "Write the steps of one layer for A and for B by hand: dense, start, wait, experts, start, wait. Which steps "
        "of B need nothing that A waits for?",
        "Take turns: a step of A, start its exchange, a step of B, start its exchange. Wait for A only when A's next "
        "step is due. The wait for a layer's output belongs to the beginning of the next layer.",
        "In the loop: `to_a = layer.dispatch(layer.dense(a))`, the same for b; then "
        "`back_a = layer.combine(layer.experts(to_a.wait()))`, the same for b. At the top of every layer but the "
        "first, `a = back_a.wait()` right before A's dense, and `b = back_b.wait()` right before B's.",
    ),
    forbidden=(
        "course_lib.parallel.experts.interleaved",
        "course_lib.parallel.experts.one_after_the_other",
    ),
    passed="Each exchange except the very last is hidden behind a step of the other micro-batch, and none is left in "
    "flight. (Tried in one process, with layers that note their calls.)",
)
