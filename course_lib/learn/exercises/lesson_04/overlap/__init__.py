"""04.overlap: the all-reduce of a bucket starts while backward goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from course_lib.learn.catalogue.exercise import Case, Evidence, Exercise, Mistake
from course_lib.learn.exercises.lesson_04.overlap.trial import (
    AGAIN,
    CALLS,
    EARLY,
    GROWTH,
    HOOKS,
    IN_PLACE,
    INSIDE,
    KINDS,
    ONE,
    OTHERS,
    WAITED,
    WAITS,
    compare,
    right,
    trial,
)
from course_lib.learn.exercises.lesson_04.overlap.wrong_answers import hooks
from course_lib.learn.exercises.lesson_04.tries import (
    KEPT,
    NOTHING,
    all_got,
    alone,
    fact_by_fact,
    only_wrong_in,
    same_on_all,
)
from course_lib.learn.judging.judge import by_trial

__all__ = ["OVERLAP"]

# -- what usual wrong answers show -------------------------------------------------------------------------------


def _fact(name: str, says: Callable[[Any], bool]) -> Callable[[Evidence], bool]:
    def recognise(evidence: Evidence) -> bool:
        got = all_got(evidence, name)
        return evidence.error is None and bool(got) and all(map(says, got))

    return recognise


def _no_early(evidence: Evidence) -> bool:
    """Whether the gradients are right, and no call was made before the end of backward."""
    begun = [count for steps in all_got(evidence, INSIDE) for count in steps]
    return only_wrong_in(evidence, EARLY) and not any(begun)


def _late(evidence: Evidence) -> bool:
    """Whether the gradients are right, and some bucket that was complete had not left."""
    pairs = [
        (want, come)
        for outcome in evidence.wrong
        if isinstance(outcome.got, dict) and EARLY in outcome.got
        for wanted, came in zip(outcome.expected[EARLY], outcome.got[EARLY], strict=True)
        for want, come in zip(wanted, came, strict=True)
    ]
    return only_wrong_in(evidence, EARLY) and all(come <= want for want, come in pairs)


def _one_call_each(evidence: Evidence) -> bool:
    """Whether a call was made for each gradient, also where all of them are in one bucket."""
    counts = [
        (o.got[CALLS], len(o.expected[EARLY][0]))
        for o in evidence.outcomes
        if o.case.startswith(ONE) and isinstance(o.got, dict) and CALLS in o.got
    ]
    return evidence.error is None and bool(counts) and all(calls == grads for calls, grads in counts)


def _works_once(evidence: Evidence) -> bool:
    """Whether in every case the first step is right, in its values and its calls, and the second is not."""
    first, second = (f"the gradients of step {step}" for step in (1, 2))
    same = fact_by_fact()
    return evidence.error is None and all(
        isinstance(o.got, dict)
        and {first, second, EARLY, KEPT} <= o.got.keys()
        and o.got[KEPT] == o.got[HOOKS] == NOTHING
        and not same(o.expected[first], o.got[first])
        and not same(o.expected[EARLY][0], o.got[EARLY][0])
        and bool(same(o.expected[EARLY][1], o.got[EARLY][1]) or same(o.expected[second], o.got[second]))
        for o in evidence.outcomes
    )


def _trusts_what_is_there(evidence: Evidence) -> bool:
    """Whether two steps are right, and buckets left too soon in the one whose gradients were there before, as zeros."""
    begun = [(o.expected[EARLY], o.got[EARLY]) for o in evidence.wrong if isinstance(o.got, dict)]
    return (
        evidence.error is None
        and bool(begun)
        and all(
            got[:IN_PLACE] == want[:IN_PLACE]
            and any(have > due for due, have in zip(want[IN_PLACE], got[IN_PLACE], strict=True))
            for want, got in begun
        )
    )


def _too_soon(evidence: Evidence) -> bool:
    """Whether there were as many calls as buckets, and some began before their bucket was complete."""
    seen = [o for o in evidence.wrong if isinstance(o.got, dict) and EARLY in o.got]
    begun = [
        (due, have)
        for o in seen
        for want, got in zip(o.expected[EARLY], o.got[EARLY], strict=True)
        for due, have in zip(want, got, strict=True)
    ]
    as_many = all(o.got[CALLS] == o.expected[CALLS] for o in seen)
    return evidence.error is None and as_many and any(have > due for due, have in begun)


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
            recognise=lambda evidence: same_on_all(evidence, CALLS, 0) and same_on_all(evidence, OTHERS, []),
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
            recognise=_fact(WAITS, lambda steps: sum(steps) > 0),
        ),
        Mistake(
            "reads-before-it-is-there",
            "No all-reduce was waited for, so nobody knows what is there when `finish` is over. Call `work.wait()` "
            "first, for every bucket.",
            recognise=lambda evidence: same_on_all(evidence, WAITED, False),
        ),
        Mistake(
            "keeps-what-is-done",
            "In the second step you waited once more for the calls of the first, whose results are old by then. "
            "`finish` must forget what it has dealt with, or each step takes longer and no flat tensor is "
            "ever given back: `under_way.clear()`.",
            recognise=lambda evidence: same_on_all(evidence, AGAIN, True) and only_wrong_in(evidence, AGAIN, GROWTH),
        ),
        Mistake(
            "never-lets-go",
            "The means are right, and after each step more numbers lie in memory than after the one before. What you "
            "keep of a bucket is kept for good. What `finish` has dealt with it must forget.",
            recognise=lambda evidence: only_wrong_in(evidence, GROWTH),
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
    passed="One call a bucket, begun as soon as its last gradient was there, on 2, 3, 4 and 5 ranks. No wait inside "
    "backward, and nothing kept from step to step.",
)
