"""What lesson 07 asks of schedules before a run, and tells after it. The clinics are in ``predictions_clinic.py``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from course_lib.claims import VERDICTS
from course_lib.cost.model_parallel.pipeline import simulate
from course_lib.learn.catalogue.prediction_spec import Asked, Explanation
from course_lib.schedules import (
    Schedule,
    gpipe,
    naive,
    one_f_one_b,
    peak_in_flight,
    zero_bubble_h1,
)
from course_lib.schedules.stage_times import StageTimes

if TYPE_CHECKING:
    from course_lib.claims.court.evidence import Evidence
    from course_lib.schedules import ScheduleTrace

__all__ = ["SCHEDULES"]

_EQUAL = StageTimes.of(0.010)  # seconds; what the page gives to a micro-batch. Shares do not depend on it
_HELD, _CONDITIONS, _MISLEADING, _FALSE = VERDICTS


def _four(run: ScheduleTrace) -> Explanation:
    return Explanation(
        measured=round(100 * run.idle_share),
        model=round(100 * simulate(gpipe(4, 4), _EQUAL).idle_share, 1),
        misreadings={
            0: "As many pieces as devices are enough to have all four at work at *some* moment. But the pipeline has "
            "to fill first, and to empty at the end.",
            25: "That is how much of the time a device *works* in the staircase. What is asked is how much of it "
            "they are idle, with pieces.",
            57: "That is how much of the time they work. What is left is idle.",
            lambda share: share > 60: "That was the staircase. Look how the boxes overlap now.",
        },
        because="By the model rank 3 waits while three forwards are run before its first one, and three backwards "
        "follow its last. That is waiting for three micro-batches, next to work on four: 3 of 7.",
        apart="The model knows equal boxes, and messages that take no time. Where four ranks share few cores, one of "
        "them wakes up late, and all that wait for it are late as well. Look for gaps in the picture that the plan "
        "does not have. Run the cell again on a quieter machine; if the number changes, ranks have waited.",
    )


def _busy(schedule: Schedule, times: StageTimes | Sequence[StageTimes] = _EQUAL) -> float:
    return 1 - simulate(schedule, times).idle_share


def _b5_by_model() -> str:
    """The verdict of trial B5, had its ranks kept to the plan."""
    slow = [_EQUAL, StageTimes.of(2 * _EQUAL.forward_s), _EQUAL, _EQUAL]
    one, many, few = _busy(naive(4)), _busy(one_f_one_b(4, 8)), _busy(one_f_one_b(4, 2))
    has_conditions = min(few, _busy(one_f_one_b(4, 8), slow)) < 0.85 * many
    return (_CONDITIONS if has_conditions else _HELD) if many > 1.8 * one else _FALSE


def _b5(tried: Evidence) -> Explanation:
    if tried.is_blocked:
        return Explanation(
            measured=_b5_by_model(),
            label="by the model",
            because=f"The trial decided nothing: {tried.because}. In the model, with few micro-batches, or with one "
            "slow stage, the devices are far from busy.",
        )
    return Explanation(
        measured=tried.verdict,
        model=_b5_by_model(),
        misreadings={
            _HELD: "With eight micro-batches it does. Read the last two lines, where something was changed.",
            _FALSE: "With eight equal micro-batches the gain is large. Compare the first two lines that say busy.",
            _MISLEADING: "The sentence is true of many a pipeline; it does not say of which.",
        },
        because="With few micro-batches, or with one slow stage, the devices are far from busy.",
        apart="The trial's verdict rests on four paced runs, and other work on this machine can turn it. Its lines "
        "that say busy stand beside those by formula: see which of them fell, and run the trial again.",
    )


def _best(step_s: Mapping[int, float]) -> Explanation:
    """From the seconds of a step, by number of micro-batches."""
    first, second = sorted(step_s, key=step_s.__getitem__)[:2]
    uncut = (
        " Where the uncut batch wins, the two ranks most likely had no core each. Where they share one, a rank that "
        "waits costs nothing, and every cut costs. Run it again on a quieter machine."
    )
    return Explanation(
        measured=first,
        misreadings={
            32: "The bubble is then smallest. But a micro-batch of one text is a thin matrix, and every layer, message "
            "and Python call is paid 32 times.",
            1: "One micro-batch is the staircase: one rank works at a time.",
        },
        because="Two things pull. The bubble shrinks with every cut, and the pieces get less efficient: what a device "
        "pays for each operation does not shrink with the piece. On GPUs the same happens, with other numbers. In this "
        f"run {second} micro-batches took {step_s[second] / step_s[first] - 1:.0%} longer than {first}; where that is "
        f"little, the next run may say it the other way round.{uncut * (first == 1)}",
    )


def _in_flight(counted: int) -> Explanation:
    return Explanation(
        measured=counted,
        model=peak_in_flight(gpipe(4, 16))[0],
        misreadings={
            4: "The pipeline is four deep, but GPipe runs no backward before the last forward. Nothing is let go.",
            1: "One is at work at a time. Those before it wait for their backward, and their activations wait as well.",
        },
        because="All forwards come first. So all 16 are in flight when the first backward begins, on every rank.",
        apart="This is a count, and no other work on the machine moves it. Look whether the schedule that was run is "
        "GPipe's, with 16 micro-batches.",
    )


_HALF, _SMALLER, _SAME, _LARGER = _CHANGES_OF_1F1B = (
    "less than half of it",
    "somewhat smaller",
    "the same",
    "larger",
)


def _1f1b(times: StageTimes) -> Explanation:
    before, now = (simulate(kind(4, 8), times).idle_share for kind in (gpipe, one_f_one_b))
    equal = abs(now - before) < 1e-9
    return Explanation(
        measured=_SAME if equal else _LARGER if now > before else _HALF if now < before / 2 else _SMALLER,
        label="computed",
        misreadings={
            _SMALLER: "One would think so. Follow rank 0: what it wins by an early B0, it loses waiting for B1.",
            _HALF: "One would think so. Follow rank 0: it still waits for the first micro-batch to come all the way "
            "back.",
            _LARGER: "Each rank does the same work in another order, and in the plan nobody waits longer in all. What "
            "messages add to it comes further down.",
        },
        because="The pipeline still has to fill and to empty, each once. The order in between changes nothing about "
        "that. Where the measured shares differ, messages and your machine are in them, and not the plan.",
    )


_BACKWARDS, _SLOW_STAGE, _MESSAGES = _CHANGES = (
    "backward takes three times the forward",
    "stage 1 takes half as long again",
    "a message takes half a forward",
)


def _formula(changes: Mapping[str, Mapping[str, Any]]) -> Explanation:
    """From what ``simulate`` is given for each change."""
    by_formula = 3 / (8 + 3)
    errors = {
        change: abs(simulate(one_f_one_b(4, 8), **settings).idle_share - by_formula)
        for change, settings in changes.items()
    }
    return Explanation(
        measured=min(errors, key=errors.__getitem__),
        label="computed",
        misreadings={
            _MESSAGES: "One would think that messages travel while others compute. But under 1F1B a stage sends a "
            "forward and then waits for a gradient, there and back, in every turn.",
            _SLOW_STAGE: "All others wait for it, once for every micro-batch.",
        },
        because="If all boxes grow in the same way, work and waiting grow alike.",
    )


def _bytes(one_each: int, two_each: int) -> Explanation:
    """From the bytes of a step on two ranks, with one stage on each, and with two."""
    before, now = (stages - 1 for stages in (2, 4))  # cuts: a message goes there and one back over each
    return Explanation(
        measured=round(two_each / one_each, 2),
        model=round(now / before, 2),
        misreadings={
            2: "Twice the stages, but count the cuts between them: 1 before, 3 now.",
            1: "The batch is as large, and what stands at a cut is too. But there are more cuts.",
            4: "Four stages, and between them three cuts.",
        },
        because="p stages have p - 1 cuts, v p stages have v p - 1. A micro-batch now also goes round from rank 1 to "
        "rank 0, which it did not before. On four ranks it is 7 cuts for 3.",
        apart="These are counted bytes: noise cannot move them. Shapes travel too, a few bytes for each cut; with a "
        "very small model they would show.",
    )


_FIRST, _LAST, _ALL, _NOWHERE = _PLACES = ("on rank 0", "on rank 3", "on all ranks alike", "nowhere")


def _where_it_grows(plain: Sequence[int], zero: Sequence[int]) -> str:
    more = [new - old for old, new in zip(plain, zero, strict=True)]
    if max(more) <= 0:
        return _NOWHERE
    if min(more) == max(more):
        return _ALL
    return {0: _FIRST, len(more) - 1: _LAST}.get(more.index(max(more)), _ALL)


def _payer(plain: Sequence[int], zero: Sequence[int]) -> Explanation:
    """From the counts by rank at their highest, under 1F1B and under ZB-H1."""
    return Explanation(
        measured=_where_it_grows(plain, zero),
        model=_where_it_grows(peak_in_flight(one_f_one_b(4, 8)), peak_in_flight(zero_bubble_h1(4, 8))),
        misreadings={
            _NOWHERE: "That is true of the fullest rank: 4 before, 4 now. Look at the others.",
            _FIRST: "It held most before, and it runs every W at once. Read its row.",
            _ALL: "Read the two lists, rank by rank.",
        },
        because="W needs activations too, so they stay until W has run, and with them the gradients of the outputs, "
        "which I has brought. What W does not need goes with I: a kept micro-batch is not as large after I as before. "
        "The last rank puts off most W's. The fullest rank holds as many as before; the others come up to it.",
        apart="These are counts, so noise cannot move them. Look which table the ranks were given.",
    )


SCHEDULES = (
    Asked(
        name="07.four",
        question="4 stages, 4 micro-batches: how much is idle?",
        unit="%",
        high=100,
        tell=_four,
    ),
    Asked(
        name="07.b5",
        question="'It keeps the devices busy; utilisation improves drastically.'",
        choices=VERDICTS,
        tell=_b5,
    ),
    Asked(
        name="07.best",
        question="32 texts, two stages: the quickest number of micro-batches?",
        unit="micro-batches",
        tell=_best,
    ),
    Asked(
        name="07.in_flight",
        question="GPipe, 4 stages, 16 micro-batches: in flight on rank 0 at most?",
        unit="micro-batches",
        tell=_in_flight,
    ),
    Asked(
        name="07.1f1b",
        question="The idle share under 1F1B, compared with GPipe's?",
        choices=_CHANGES_OF_1F1B,
        tell=_1f1b,
    ),
    Asked(
        name="07.formula",
        question="Which of these leaves the idle share as it is?",
        choices=_CHANGES,
        tell=_formula,
    ),
    Asked(
        name="07.bytes",
        question="Two virtual stages a rank on two ranks: how many times as many bytes travel?",
        unit="x",
        high=100,
        tell=_bytes,
    ),
    Asked(
        name="07.payer",
        question="ZB-H1 against 1F1B: where does the number in flight grow most?",
        choices=_PLACES,
        tell=_payer,
    ),
)
