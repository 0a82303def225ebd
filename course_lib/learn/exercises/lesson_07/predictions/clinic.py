"""What lesson 07 asks of pipelines side by side and in its three clinics, and tells after it; and all it asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from course_lib.claims import VERDICTS
from course_lib.learn.catalogue.prediction_spec import Asked, Explanation
from course_lib.learn.exercises.lesson_07.predictions import SCHEDULES
from course_lib.learn.exercises.lesson_07.predictions.arrival import ARRIVAL
from course_lib.learn.exercises.lesson_07.predictions.memory_limit import MEMORY_LIMIT

if TYPE_CHECKING:
    from course_lib.claims.court.evidence import Evidence

__all__ = ["PREDICTIONS"]

_HELD, _CONDITIONS, _MISLEADING, _FALSE = VERDICTS


def _b6(tried: Evidence) -> Explanation:
    return Explanation(
        measured=tried.verdict,
        misreadings={
            _HELD: "Count the copies of each weight in one pipeline, and the all-reduces of gradients.",
            _FALSE: "There is something to it: the two can be combined, and then somebody all-reduces.",
            _CONDITIONS: "No number of micro-batches makes a second copy of a weight.",
        },
        because="Micro-batches look like the parts of a data-parallel batch. But nothing is replicated and no gradient "
        "of a weight travels. The combination is what you ran a moment ago: two pipelines.",
    )


_OTHER_REPLICA, _EVERY_TIME, _GROUPS, _TOO_LARGE = _FULL = (
    "activations go to the other replica too",
    "gradients are averaged for every micro-batch",
    "the groups hold too many ranks",
    "the stages are too large for the link",
)


def _sync() -> Explanation:
    return Explanation(
        measured=_EVERY_TIME,
        label="the evidence says",
        misreadings={
            _OTHER_REPLICA: "Then send and recv would grow with the micro-batches. They stay.",
            _GROUPS: "Then the first row would be too large as well.",
            _TOO_LARGE: "The stages are the same in every row. What grows, and with what?",
        },
        because="The bytes of all-reduce grow exactly as the number of micro-batches: the hooks run at every backward. "
        "The values are right all the same: the mean of a sum is the sum of the means. Only the bytes show it.",
    )


_SMALL, _LOST, _TWICE, _RATES = _CAREFUL = (
    "micro-batches are too small for good gradients",
    "some micro-batches are lost",
    "the loss is averaged twice",
    "rank 0 and rank 1 use different learning rates",
)


def _twice() -> Explanation:
    return Explanation(
        measured=_TWICE,
        label="the evidence says",
        misreadings={
            _SMALL: "Gradients add up over pieces, small or not. Look at the ratio between rows.",
            _LOST: "Without some of the samples the gradient would be another one. Here it is a half, a quarter and an "
            "eighth of the first row's, on both ranks.",
            _RATES: "No optimizer has stepped yet in this table.",
        },
        because="Twice the micro-batches, half the gradients, on every rank. The runtime weighs each micro-batch by "
        "its share of the batch already, as PyTorch's does (`scale_grads=True`), and the team divides once more.",
    )


_BUFFERS, _SCHEDULES, _BOTH_SEND, _ENDED = _STUCK = (
    "the messages are too large for gloo's buffers",
    "the ranks run different schedules",
    "both ranks are sending, and neither receives",
    "rank 1 has ended early",
)


def _send() -> Explanation:
    return Explanation(
        measured=_BOTH_SEND,
        label="the evidence says",
        misreadings={
            _BUFFERS: 'Then small ones would pass. Those of `check("07.run", ...)` have 120 bytes: hand in this loop.',
            _SCHEDULES: "Both read the same table. GPipe's works.",
            _ENDED: "The report says that rank 1 waits in a send.",
        },
        because="Under GPipe all messages go down first, and then all go up. Under 1F1B messages cross: rank 0 sends "
        "what F1 made while rank 1 sends what B0 made. A send ends when the other rank receives. Each rank would "
        "receive only in its next line.",
    )


PREDICTIONS = (
    *SCHEDULES,
    Asked(
        name="07.b6",
        question="'A pipeline is a combination of data and model parallelism.'",
        choices=VERDICTS,
        tell=_b6,
    ),
    Asked(name="07.sync", question="Why is the link full?", choices=_FULL, tell=_sync),
    Asked(name="07.careful", question="Why does it learn more slowly?", choices=_CAREFUL, tell=_twice),
    Asked(name="07.hangs", question="Why does it hang under 1F1B?", choices=_STUCK, tell=_send),
    *ARRIVAL,
    *MEMORY_LIMIT,
)
