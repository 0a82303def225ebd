"""04.overlap: the all-reduce of a bucket starts while backward goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from course_lib.learn.catalogue.exercise import AnswerOutcome, Case, Evidence, Exercise, Mistake
from course_lib.learn.exercises.lesson_04.overlap.report import EarlyReport
from course_lib.learn.exercises.lesson_04.overlap.trial import IN_PLACE, KINDS, ONE, right, trial
from course_lib.learn.exercises.lesson_04.overlap.wrong_answers import hooks
from course_lib.learn.exercises.lesson_04.tries import EXACT, alone
from course_lib.learn.judging.judge import by_trial
from course_lib.learn.judging.report import NOT_DEMANDED, NOTHING, Recogniser, both, compare, only_wrong, reports

__all__ = ["OVERLAP"]

# -- what usual wrong answers show -------------------------------------------------------------------------------


def _every(name: str, says: Callable[[Any], bool]) -> Recogniser:
    """Whether this holds of the field in each report that has it."""

    def recognise(evidence: Evidence) -> bool:
        got = _all(evidence, name)
        return evidence.error is None and bool(got) and all(map(says, got))

    return recognise


def _all(evidence: Evidence, name: str) -> list[Any]:
    """The field of each report that has it."""
    found = [getattr(report, name) for _, report in reports(evidence, EarlyReport)]
    return [value for value in found if value is not NOT_DEMANDED]


def _begun(outcomes: Iterable[AnswerOutcome]) -> list[tuple[int, int]]:
    """At each gradient: all-reduces that should have begun, and those that had."""
    return [
        pair
        for outcome in outcomes
        if isinstance(outcome.got, EarlyReport) and outcome.got.early is not NOT_DEMANDED
        for wanted, came in zip(outcome.expected.early, outcome.got.early, strict=False)
        for pair in zip(wanted, came, strict=False)
    ]


def _no_early(evidence: Evidence) -> bool:
    """Whether the gradients are right, and no call was made before the end of backward."""
    return only_wrong("early")(evidence) and not any(count for steps in _all(evidence, "inside") for count in steps)


def _late(evidence: Evidence) -> bool:
    """Whether the gradients are right, and some bucket that was complete had not left."""
    return only_wrong("early")(evidence) and all(come <= want for want, come in _begun(evidence.wrong))


def _one_call_each(evidence: Evidence) -> bool:
    """Whether a call was made for each gradient, also where all of them are in one bucket."""
    counts = [
        (report.num_calls, len(outcome.expected.early[0]))
        for outcome, report in reports(evidence, EarlyReport)
        if outcome.kind == ONE and report.num_calls is not NOT_DEMANDED
    ]
    return evidence.error is None and bool(counts) and all(calls == grads for calls, grads in counts)


def _works_once(evidence: Evidence) -> bool:
    """Whether in every case the first step is right, in its values and its calls, and the second is not."""

    def once(want: EarlyReport, got: EarlyReport) -> bool:
        if got.gradients is NOT_DEMANDED or not {1, 2} <= got.gradients.keys() or not got.kept == got.hooks == NOTHING:
            return False
        first, second = (
            EXACT(want.gradients[step], got.gradients[step]) or want.early[step - 1] != got.early[step - 1]
            for step in (1, 2)
        )
        return not first and bool(second)

    return evidence.error is None and all(
        isinstance(one.got, EarlyReport) and once(one.expected, one.got) for one in evidence.outcomes
    )


def _trusts_what_is_there(evidence: Evidence) -> bool:
    """Whether two steps are right, and buckets left too soon in the one whose gradients were there before, as zeros."""
    begun = [(o.expected.early, o.got.early) for o in evidence.wrong if isinstance(o.got, EarlyReport)]
    return (
        evidence.error is None
        and bool(begun)
        and all(
            got is not NOT_DEMANDED
            and got[:IN_PLACE] == want[:IN_PLACE]
            and any(have > due for due, have in zip(want[IN_PLACE], got[IN_PLACE], strict=True))
            for want, got in begun
        )
    )


def _too_soon(evidence: Evidence) -> bool:
    """Whether there were as many calls as buckets, and some began before their bucket was complete."""
    seen = [o for o in evidence.wrong if isinstance(o.got, EarlyReport) and o.got.early is not NOT_DEMANDED]
    as_many = all(o.got.num_calls == o.expected.num_calls for o in seen)
    return evidence.error is None and as_many and any(have > due for due, have in _begun(seen))


def _asks_none(evidence: Evidence, *, wait: bool) -> bool:
    """Whether something was asked of None: ``wait``, or else what one asks of a gradient."""
    error = evidence.error
    if error is None or "NoneType" not in error.message or "not callable" in error.message:
        return False
    if wait:
        return "'wait'" in error.message
    return "'wait'" not in error.message and "grad" in error.source


OVERLAP = Exercise(
    name="04.overlap",
    title="Buckets that leave while backward goes on",
    judge=by_trial(
        (2, 4, 3, 5, 1),
        tuple(Case(kind, (kind,), right(kind)) for kind in KINDS),
        trial,
        compare=compare,
        timeout_s=5.0,
    ),
    mistakes=(
        Mistake(
            "one-call-a-gradient",
            "Each gradient travels alone, in a call of its own: the buckets are not used. Wait until all gradients of "
            "a bucket are there, `torch.cat` them to one flat tensor, and all-reduce that.",
            recognise=_one_call_each,
        ),
        Mistake(
            "never-sends",
            "No all-reduce was made, so every rank keeps its own gradients. Does `on_gradient` count each gradient "
            "that comes? It starts the call when the count is the length of its bucket.",
            recognise=both(_every("num_calls", lambda calls: calls == 0), _every("others", lambda others: not others)),
        ),
        Mistake(
            "after-backward",
            "The means are right, and nothing was under way when the last gradient came. All calls are made after "
            "backward, and none of their time is hidden. Start a bucket's all-reduce in the hook of its last gradient.",
            recognise=_no_early,
        ),
        Mistake(
            "leaves-late",
            "The means are right, and some buckets leave later than they could: all of their gradients were there, and "
            "their all-reduce had not begun. Start it in the hook of the bucket's own last gradient, whatever the "
            "other buckets do.",
            recognise=_late,
        ),
        Mistake(
            "waits-in-the-hook",
            "Your hook waits until its all-reduce is done, and backward waits with it. With `async_op=True` "
            "the call returns at once; keep what it returns, and wait in `finish`.",
            recognise=_every("waits", lambda steps: sum(steps) > 0),
        ),
        Mistake(
            "reads-before-it-is-there",
            "No all-reduce was waited for, so nobody knows what is there when `finish` is over. Call `work.wait()` "
            "first, for every bucket.",
            recognise=_every("waited", lambda waited: waited is False),
        ),
        Mistake(
            "keeps-what-is-done",
            "In the second step you waited once more for the calls of the first, whose results are old by then. "
            "`finish` must forget what it has dealt with, or each step takes longer and no flat tensor is "
            "ever given back: `under_way.clear()`.",
            recognise=both(_every("again", bool), only_wrong("again", "growth")),
        ),
        Mistake(
            "never-lets-go",
            "The means are right, and after each step more numbers lie in memory than after the one before. What you "
            "keep of a bucket is kept for good. What `finish` has dealt with it must forget.",
            recognise=only_wrong("growth"),
        ),
        Mistake(
            "works-once",
            "The first step is right and the second is not: the buckets do not begin afresh. Set your counts back when "
            "a bucket leaves.",
            recognise=_works_once,
        ),
        Mistake(
            "trusts-what-is-there",
            "Steps whose gradients begin as None are right. Before the third step they were set to zero "
            "(`zero_grad(set_to_none=False)`), and there a bucket left before its gradients had come. A `.grad` that "
            "is there may be an old one. Count the gradients of a bucket as they come.",
            recognise=_trusts_what_is_there,
        ),
        Mistake(
            "leaves-too-soon",
            "A bucket left before all of its gradients were there. Count the gradients of a bucket as they come. Start "
            "when the count is its length, `len(buckets[number])`, and set the count back for the next step.",
            recognise=lambda evidence: _asks_none(evidence, wait=False) or _too_soon(evidence),
        ),
        Mistake(
            "without-async-op",
            "Without `async_op=True` an all-reduce waits on the spot and returns None, which has no `wait()`. With it, "
            "the call returns at once, and gives you something to wait for in `finish`.",
            recognise=lambda evidence: _asks_none(evidence, wait=True),
        ),
        Mistake(
            "not-alone",
            "Right on 2, 3, 4 and 5 ranks, and not on one. An all-reduce of one rank comes back at once, and the same "
            "code is to serve there.",
            recognise=alone,
        ),
        Mistake(
            "sum-not-mean",
            "You have the sum of the ranks' gradients. Divide by `me.world_size`, once, before you copy it back.",
            hooks(divide=False),
        ),
        Mistake(
            "not-copied-back",
            "The means were computed and are lost: `torch.cat` made a copy, and the optimizer reads `parameter.grad`. "
            "Cut the flat tensor into the parameters' sizes and copy each part back.",
            hooks(copy_back=False),
        ),
    ),
    hints=(
        "A hook is called with its parameter as soon as that gradient is there. What has to be remembered, so that the "
        "hook knows that its bucket is complete?",
        "For each bucket a count of gradients that have come. When it reaches the length of the bucket: set it back, "
        "`flat = torch.cat([p.grad.flatten() for p in bucket])`, start `dist.all_reduce(flat, async_op=True)`, and "
        "keep (work, flat, bucket) for `finish`.",
        "In `finish`: for each (work, flat, bucket): `work.wait()`, `flat /= me.world_size`, then for each p and part "
        "in zip(bucket, flat.split([p.numel() for p in bucket])): `p.grad.copy_(part.view_as(p))`; clear the list.",
    ),
    forbidden=(
        "torch.nn.parallel.DistributedDataParallel",
        "course_lib.parallel.data.DistributedDataParallel",
        "course_lib.parallel.data.all_reduce_buckets",
        "course_lib.parallel.data.all_reduce_gradients",
        "course_lib.parallel.data.Bucket",
    ),
    passed="There is one call for each bucket, begun as soon as its last gradient was there, on 2, 3, 4 and 5 ranks. "
    "No rank waits inside backward, and nothing is kept from step to step.",
)
