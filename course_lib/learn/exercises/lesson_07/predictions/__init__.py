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
            0: "With as many pieces as devices, all four work at *some* moment. But the pipeline has to fill first, "
            "and to empty at the end.",
            25: "That is the share of the time in which a device *works* in the staircase. The question is how much "
            "of the time devices are idle, with pieces.",
            57: "That is the share of the time in which they work. The rest is idle.",
            lambda share: share > 60: "That is so in the staircase. Look how the boxes overlap with micro-batches.",
        },
        because="By the model rank 3 waits while three forwards are run before its first one, and three backwards "
        "follow its last. So rank 3 waits for the time of three micro-batches and works for the time of four. 3 of "
        "7 is idle.",
        apart="The model assumes equal boxes, and messages that take no time. If four ranks share few cores, one of "
        "them may continue late, and all that wait for it are late as well. Look for gaps in the picture that the plan "
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
            _MISLEADING: "The statement is true of many pipelines. It does not say of which ones.",
        },
        because="With few micro-batches, or with one slow stage, the devices are far from busy.",
        apart="The trial's verdict rests on four paced runs, and other work on this machine can change it. "
        "Compare its lines that say busy with the formula, see which are lower, and run the trial again.",
    )


def _best(step_s: Mapping[int, float]) -> Explanation:
    """From the seconds of a step, by number of micro-batches."""
    first, second = sorted(step_s, key=step_s.__getitem__)[:2]
    uncut = (
        " If the uncut batch is quickest, the two ranks probably shared one core. Then waiting costs "
        "nothing, and every cut costs time. Run it again on a quieter machine."
    )
    return Explanation(
        measured=first,
        misreadings={
            32: "Then the bubble is smallest. But a micro-batch of one text is a small matrix, and every layer, "
            "message and Python call costs its time 32 times.",
            1: "One micro-batch is the staircase: one rank works at a time.",
        },
        because="Two things change. The bubble shrinks with every cut. But smaller pieces are less efficient, "
        "because each operation costs some time however small the piece is. On GPUs it is the same, with other "
        f"numbers. In this run {second} micro-batches took {step_s[second] / step_s[first] - 1:.0%} longer than "
        f"{first}; if that is little, the next run may have another order.{uncut * (first == 1)}",
    )


def _in_flight(counted: int) -> Explanation:
    return Explanation(
        measured=counted,
        model=peak_in_flight(gpipe(4, 16))[0],
        misreadings={
            4: "The pipeline has four stages, but GPipe runs no backward before the last forward. So no micro-batch "
            "ends before that.",
            1: "A rank computes one at a time. But those whose forward has run wait for their backward, and the rank "
            "keeps their activations.",
        },
        because="All forwards come first. So all 16 are in flight when the first backward begins, on every rank.",
        apart="This is a count, and other work on the machine does not change it. Look whether the schedule that "
        "was run is GPipe's, with 16 micro-batches.",
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
            _SMALLER: "Follow rank 0: what it saves by an early B0, it loses while it waits for B1.",
            _HALF: "Follow rank 0: it still waits for the gradient of the first micro-batch to come back from the last "
            "rank.",
            _LARGER: "Each rank does the same work in another order, and in the plan no rank waits longer in all. "
            "Part 2 looks at what messages add.",
        },
        because="The pipeline still has to fill and to empty, each once. The order in between does not change "
        "that. If the measured shares differ, messages and your machine are the reason, and not the plan.",
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
            _MESSAGES: "Messages do travel while others compute. But under 1F1B a stage sends an activation and then "
            "waits for a gradient, in every turn.",
            _SLOW_STAGE: "All other stages wait for stage 1, once for every micro-batch.",
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
            2: "There are twice as many stages. But count the cuts between them: 1 before, 3 now.",
            1: "The batch is as large as before, and so is the activation at a cut. But there are more cuts.",
            4: "There are four stages, but only three cuts between them.",
        },
        because="p stages have p - 1 cuts, v p stages have v p - 1. A micro-batch now also goes round from rank 1 to "
        "rank 0, which it did not before. On four ranks there are 7 cuts in place of 3.",
        apart="These are counted bytes: noise cannot change them. Ranks send shapes too, a few bytes for each cut; "
        "with a very small model they would show.",
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
            _FIRST: "It held most before, but it runs every W directly after its I. Read its row.",
            _ALL: "Read the two lists, rank by rank.",
        },
        because="W needs activations too, so they stay until W has run, and so do the gradients of the outputs. I "
        "lets go what W does not need, so a micro-batch needs less memory after I than before. The last rank puts "
        "off most W's. The fullest rank holds as many as before, and on the others the number grows.",
        apart="These are counts, so noise cannot change them. Look which table the ranks were given.",
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
        question="32 texts, two stages: with how many micro-batches is a step quickest?",
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
