"""12.job: how usual wrong answers are told by what they leave behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from course_lib.learn.catalogue.exercise import AnswerOutcome, Evidence
from course_lib.learn.exercises.lesson_12.job.cases import SITUATIONS, oracle
from course_lib.learn.exercises.lesson_12.job.reports import JobReport, ResumedRun, losses_differ, weights_differ
from course_lib.learn.judging.report import Recogniser, differing, reports

__all__ = [
    "a_factor_off",
    "finds_nothing",
    "first_wrong_loss",
    "goes_on_without",
    "killed",
    "later_epochs",
    "names_say",
    "of_shares",
    "ranks_differ",
    "shares_say",
    "stays_say",
    "told_says",
    "trains_like",
    "wrong_first_in",
]

_PLAIN = "batches that divide"
_STOPPED = "jobs that were stopped"


def wrong_first_in(*kinds: str) -> Recogniser:
    """Whether the first thing that is wrong is in one of these cases."""
    return lambda evidence: bool(evidence.wrong) and evidence.wrong[0].kind in kinds


# -- values -----------------------------------------------------------------------------------------------------------


def _ratios(evidence: Evidence) -> list[float]:
    """How many times too large the loss of the very first step is on each rank, in the plain case."""
    found = []
    for one, got in reports(evidence, JobReport):
        if one.kind == _PLAIN and isinstance(got.losses, list) and got.losses and isinstance(got.losses[0], float):
            found.append(got.losses[0] / oracle(_PLAIN, 0, SITUATIONS[_PLAIN].until).losses[0])
    return found


def a_factor_off(evidence: Evidence) -> bool:
    """Whether ranks agree on a first loss that is so many times too large, or too small."""
    near = [abs(one * k - 1) < 1e-6 or abs(one / k - 1) < 1e-6 for one in _ratios(evidence) for k in (2, 3, 6, 24)]
    return evidence.error is None and bool(near) and sum(near) >= len(near) / 4


def ranks_differ(evidence: Evidence) -> bool:
    """Whether in the first step ranks have losses of their own."""
    by_size: dict[int, set[float]] = {}
    for one, got in reports(evidence, JobReport):
        if one.kind == _PLAIN and isinstance(got.losses, list) and got.losses and isinstance(got.losses[0], float):
            by_size.setdefault(one.num_ranks, set()).add(round(got.losses[0], 9))
    return evidence.error is None and any(len(found) > 1 for found in by_size.values())


def trains_like(habit: str) -> Recogniser:
    """Whether the plain case goes as one process with this habit, and not as it should."""

    def recognise(evidence: Evidence) -> bool:
        until = SITUATIONS[_PLAIN].until
        found = [
            any(
                not losses_differ(oracle(_PLAIN, 0, until, frozenset({habit}), times).losses, got.losses)
                for times in (1, one.num_ranks)
            )
            for one, got in reports(evidence, JobReport)
            if one.kind == _PLAIN and "losses" in differing(one)
        ]
        return evidence.error is None and bool(found) and all(found)

    return recognise


# -- samples ----------------------------------------------------------------------------------------------------------


def shares_say(*words: str) -> Recogniser:
    """Whether the first share that is wrong is told by these words."""
    return lambda evidence: any(
        all(word in str(got.shares) for word in words)
        for one, got in reports(evidence, JobReport)
        if "shares" in differing(one)
    )


def of_shares(outcome: AnswerOutcome) -> bool:
    """Whether the shares of this outcome are wrong, to be shown."""
    return "shares" in differing(outcome)


def later_epochs(evidence: Evidence) -> bool:
    """Whether shares are right in the first epoch, and wrong in a later one."""
    found = []
    for one, got in reports(evidence, JobReport):
        if "shares" in differing(one):
            step = int("".join(filter(str.isdigit, str(got.shares).split("step ")[1].split(" ")[0])))
            found.append(step >= SITUATIONS[one.kind].num_batches)
    return bool(found) and all(found)


def first_wrong_loss(*, in_short: bool) -> Recogniser:
    """Whether shares are right, and the first wrong loss is that of the first short batch; or of the step after it."""

    def recognise(evidence: Evidence) -> bool:
        found = []
        for one, got in reports(evidence, JobReport):
            if "losses" in differing(one) and isinstance(got.losses, list):
                first = SITUATIONS[one.kind].num_batches - 1 + (not in_short)
                want = one.expected.losses
                is_right_before = not losses_differ(want[:first], got.losses[:first])
                is_wrong_here = bool(losses_differ(want[first : first + 1], got.losses[first : first + 1]))
                found.append(is_right_before and is_wrong_here and "shares" not in differing(one))
        return evidence.error is None and bool(found) and all(found)

    return recognise


# -- after a restart --------------------------------------------------------------------------------------------------


def _runs(evidence: Evidence, kind: str = "") -> Iterator[tuple[AnswerOutcome, ResumedRun]]:
    for one, got in reports(evidence, JobReport):
        for run in got.runs:
            if not kind or one.kind == kind:
                yield one, run


def goes_on_without(part: str) -> Recogniser:
    """Whether each job that was stopped goes on as one process that has lost this part of its state."""

    def recognise(evidence: Evidence) -> bool:
        until = SITUATIONS[_STOPPED].until
        found = [
            not run.error and _is(run, oracle(_STOPPED, run.stop, until, frozenset({part})))
            for _, run in _runs(evidence, _STOPPED)
        ]
        is_right = all(one.right for one in evidence.outcomes if one.kind == _STOPPED)
        return bool(found) and not is_right and all(found)

    return recognise


def _is(run: ResumedRun, want: Any) -> bool:
    return not losses_differ(want.losses, run.losses) and not weights_differ(want.weights, run.weights)


def finds_nothing(evidence: Evidence) -> bool:
    """Whether no job that was stopped finds a checkpoint."""
    found = [run.step == 0 and not run.error for _, run in _runs(evidence, _STOPPED)]
    return bool(found) and all(found)


def _wrong_kill(evidence: Evidence) -> list[ResumedRun]:
    """The last of the runs after a kill on each rank, where something is wrong: it is the one that is wrong."""
    kills = [
        got.runs[-1]
        for one, got in reports(evidence, JobReport)
        if SITUATIONS[one.kind].kind == "torn" and "again" in differing(one)
    ]
    return kills


def killed(holds: Callable[[ResumedRun], bool]) -> Recogniser:
    """Whether kills within a save are the first that is wrong, and hold of the run after."""

    def recognise(evidence: Evidence) -> bool:
        found = _wrong_kill(evidence)
        first = bool(evidence.wrong) and SITUATIONS[evidence.wrong[0].kind].kind == "torn"
        return first and bool(found) and any(holds(run) for run in found)

    return recognise


def names_say(*words: str) -> Callable[[ResumedRun], bool]:
    """Of a run after a kill: whether the moment of the kill is called so."""
    return lambda run: any(word in run.of for word in words)


def stays_say(words: str) -> Recogniser:
    """Whether what stays in the folder is told so."""
    return lambda evidence: any(
        words in str(got.stored) for one, got in reports(evidence, JobReport) if "stored" in differing(one)
    )


def told_says(word: str) -> Recogniser:
    """Whether what came of a disk that is full is told so."""
    return lambda evidence: any(
        word in str(got.told) for one, got in reports(evidence, JobReport) if "told" in differing(one)
    )
