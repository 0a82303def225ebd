"""07.run: the loop that executes a row of a schedule on a rank: receive, run the stage, send."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from course_lib.base.text import counted
from course_lib.cluster.failures.rank_stands import RankStands
from course_lib.learn.catalogue.exercise import AnswerOutcome, Case, Evidence, Exercise, Mistake
from course_lib.learn.exercises.lesson_07.run.trial import LAYOUTS, RightRun, RunSeen, right_run, try_run
from course_lib.learn.exercises.lesson_07.told import ExplainedEvidence
from course_lib.learn.judging.compare import Difference, close_to
from course_lib.learn.judging.judge import by_trial

__all__ = ["RUN"]

_HELD_BACK = "held-back"  # a kind of difference
_ROOM = 1.5  # a shape may travel before each message
_close = close_to(1e-9, 1e-12)


def _compare(right: Any, got: Any) -> str:
    """The row, then what was kept, the gradients, and last what was sent."""
    if not isinstance(right, RightRun) or not isinstance(got, RunSeen):
        return "" if right == got else "the answers differ"
    if got.ran != right.row:
        return f"the stage ran {_row(got.ran)}, where its row is {_row(right.row)}"
    if got.overwritten:
        which = counted(len(set(got.overwritten)), "micro-batch")
        return f"{which} still in flight had its input overwritten by what arrived later"
    for name, want in right.gradients.items():
        found = _close(want, got.gradients[name]) if name in got.gradients else "there is none"
        if found:
            return f"the gradient of `{name}`: {found}"
    if got.row_after != right.row:
        return (
            f"the gradients are right, and `row` has changed: it was {_row(right.row)} and is {_row(got.row_after)} now"
        )
    if got.held and got.sent:
        made, begun = got.held[0]
        words = f"the gradients are right, and what {made} made had not set out when {begun} began"
        return Difference(words, _HELD_BACK)
    if got.sent > _ROOM * right.num_messages:
        return (
            f"the gradients are right, and this rank sent as much as {got.sent:.1f} messages, where "
            f"{right.num_messages} do"
        )
    return ""


def _row(actions: list[str]) -> str:
    return f"`{' '.join(actions)}`" if actions else "nothing"


def _judge(answer: Any, forbidden: tuple[str, ...] = ()) -> Evidence:
    """The layouts one after the other; those after a failure are left out."""
    from course_lib.meter import nccl_breaches

    outcomes: list[AnswerOutcome] = []
    called: set[str] = set()
    breaches: dict[str, str] = {}  # of NCCL's rules: the first of each
    for label, layout in LAYOUTS.items():
        case = Case(label, (layout,), right_run(layout))
        found = by_trial((layout.world_size,), (case,), try_run, compare=_compare)(answer, forbidden)
        outcomes += found.outcomes
        called.update(found.called)
        calls = [call for one in found.outcomes if isinstance(one.got, RunSeen) for call in one.got.calls]
        for breach in nccl_breaches(calls):
            breaches.setdefault(breach.rule, str(breach))
        if not found.passed:
            break
    kept = tuple(map(_without_calls, outcomes))
    return Evidence(kept, answer, tuple(sorted(called)), on_nccl=tuple(breaches.values()))


def _without_calls(outcome: AnswerOutcome) -> AnswerOutcome:
    got = outcome.got
    return replace(outcome, got=replace(got, calls=())) if isinstance(got, RunSeen) else outcome


_judge.world_sizes = tuple(layout.world_size for layout in LAYOUTS.values())  # type: ignore[attr-defined]


# -- what wrong answers show --------------------------------------------------------------------------------------


def _somewhere(check: Callable[[RightRun, RunSeen], bool]) -> Callable[[Evidence], bool]:
    return lambda evidence: any(check(o.expected, o.got) for o in evidence.outcomes if isinstance(o.got, RunSeen))


def _kinds(actions: list[str]) -> str:
    return "".join(action[0] for action in actions)


def _all_forwards_first(right: RightRun, got: RunSeen) -> bool:
    is_another = _kinds(got.ran) != _kinds(right.row)
    return is_another and sorted(got.ran) == sorted(right.row) and "BF" not in _kinds(got.ran)


def _other_numbers(right: RightRun, got: RunSeen) -> bool:
    """F's and B's as in the row, with other micro-batches."""
    return got.ran != right.row and _kinds(got.ran) == _kinds(right.row)


def _crosses(evidence: Evidence) -> bool:
    """GPipe was right, and under 1F1B ranks wait in a send for each other."""
    first, *_ = LAYOUTS
    began = [one for one in evidence.outcomes if one.case.startswith(first)]
    return all(one.right for one in began) and len(_stands(evidence).waiting_in("send")) > 1


def _receives_first(evidence: Evidence) -> bool:
    """GPipe was right, and further on ranks wait in receives for each other, with what they made still in hand."""
    stands, (first, *_) = _stands(evidence), LAYOUTS
    began = [one for one in evidence.outcomes if one.case.startswith(first)]
    waits = len(stands.waiting_in("receive")) > 1 and not stands.waiting_in("send")
    return all(one.right for one in began) and waits and not stands.have_returned


def _is_never_taken(evidence: Evidence) -> bool:
    """A rank has ended, and another waits in a receive for what it had yet to send."""
    stands = _stands(evidence)
    return bool(stands.have_returned and stands.waiting_in("receive")) and not stands.let_go


def _never_waits(evidence: Evidence) -> bool:
    """By luck it came to its end, or the message went away with its tensor."""
    by_luck = any(one.unwaited for one in evidence.outcomes)
    return by_luck or bool(_stands(evidence).let_go)


def _other_micro_batches(evidence: Evidence) -> bool:
    """Other numbers than the row's; or the stage was asked for a micro-batch twice, where numbers have two digits."""
    last, (*_, eleven) = evidence.outcomes[-1], LAYOUTS
    stopped = "" if last.error is None else last.error.message
    is_lost = last.case.startswith(eleven) and "asked for before forward(" in stopped
    return is_lost or _somewhere(_other_numbers)(evidence)


def _is_held_back(outcome: AnswerOutcome) -> bool:
    return outcome.kind_of_difference == _HELD_BACK


def _holds_back(evidence: Evidence) -> bool:
    """All that is wrong is that messages set out late; at every result."""
    return all(map(_is_held_back, evidence.wrong))


def _stands(evidence: Evidence) -> RankStands:
    """Where the ranks stood when the last layout failed."""
    return evidence.stands if evidence.outcomes[-1].error is evidence.error else RankStands()


RUN = Exercise(
    name="07.run",
    title="The loop over a row",
    judge=ExplainedEvidence(_judge, _compare),
    mistakes=(
        Mistake(
            "they-cross",
            "GPipe is right. Under 1F1B two neighbours send at the same moment, one down and one up. Each waits "
            "in its send until the other receives. Hold back what an action has made, and start it together with "
            "what the next action waits for.",
            recognise=_crosses,
        ),
        Mistake(
            "all-forwards-first",
            "Your loop runs all forwards and then all backwards, whatever the row says. Under 1F1B the row says "
            "otherwise: go through it as it stands.",
            recognise=_somewhere(_all_forwards_first),
        ),
        Mistake(
            "other-numbers",
            "Forwards and backwards come as in the row, and some have another number than the row says. The "
            "micro-batch is all that stands behind the letter, `int(action[1:])`: the row need not count "
            "up from 0, and a number may have two digits.",
            recognise=_other_micro_batches,
        ),
        Mistake(
            "receive-before-send",
            "Ranks wait in a receive, each for the other, and what a neighbour waits for has not been sent: it stands "
            "behind that receive. Whether this hangs depends on the row. Start both in one `exchange`.",
            recognise=_receives_first,
        ),
        Mistake(
            "one-room",
            "What arrives is written into a tensor that still holds the input of an earlier micro-batch. The stage "
            "needs that until its backward: make a new `stage.room()` for each message.",
            recognise=_somewhere(lambda right, got: bool(got.overwritten)),
        ),
        Mistake(
            "held-back",
            "The gradients are right. But what an action had made was still in hand when the next one ran, so the "
            "neighbour waits for something that is ready. What an "
            "action has made sets out before the next action runs, whether that receives something or not.",
            recognise=_holds_back,
            shows=_is_held_back,
        ),
        Mistake(
            "nothing-travels",
            "Every action was run, and no rank has sent anything: what the stages were given came from nobody.",
            recognise=_somewhere(lambda right, got: got.ran == right.row and right.num_messages > 0 and got.sent == 0),
        ),
        Mistake(
            "nobody-waited",
            "You start messages and never wait for them. Until a message is over, its tensor must not go away; what "
            "`isend` gives back has a `wait()`.",
            recognise=_never_waits,
        ),
        Mistake(
            "the-last-message",
            "One rank has returned, and another waits for a message that never sets out. What the *last* action of a "
            "row makes has to be sent as well, when the loop is over.",
            recognise=_is_never_taken,
        ),
    ),
    hints=(
        "An action waits for what the neighbour on one side has made, and makes something for the neighbour on the "
        "other. Which is which for F, and which for B? And who has no neighbour there?",
        "Keep a list of messages that are to go out, empty at first. Before an action: put the receive that it needs "
        "beside them, and exchange all of it. After it: the list holds what it made. After the loop: exchange once "
        "more.",
        "for each action: arrived = stage.room() where there is a neighbour to hear from; exchange(going + "
        "[recv(arrived, before)]); made = stage.forward(i, arrived) or stage.backward(i, arrived); going = "
        "[send(made, after)] where there is a neighbour to send to, else []. At the end: exchange(going)",
    ),
    forbidden=("course_lib.parallel.pipeline.Pipeline", "course_lib.parallel.pipeline.batch_run.BatchRun"),
    passed="The loop executes GPipe, 1F1B and a row that runs its backwards from the last to the first. The gradients "
    "are those of the uncut model, and each message travelled once.",
)
