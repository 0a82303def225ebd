"""What lesson 04 asks before a run, and tells after it; more in ``timed``, ``jobs``, ``trace`` and ``tokens``."""

from __future__ import annotations

from collections.abc import Sequence

from course_lib.cost.collectives.collective_cost import collective_cost
from course_lib.layouts.link import Link
from course_lib.learn.catalogue.prediction_spec import Asked, Explanation
from course_lib.learn.exercises.lesson_04.predictions.jobs import CRASH, FLAG, SCRIPT, UNUSED
from course_lib.learn.exercises.lesson_04.predictions.timed import BREAK_EVEN, BUCKETS, CALLS, SPEEDUP
from course_lib.learn.exercises.lesson_04.predictions.tokens import TOKENS
from course_lib.learn.exercises.lesson_04.predictions.trace import TRACE

__all__ = ["PREDICTIONS"]

_ANY_LINK = Link(latency_s=10e-6, bandwidth_bytes_per_s=10e9)  # bytes do not depend on it

_OUTCOMES = ("an error", "four ranks that wait for ever", "four different models", "four equal models")


def _apart(furthest: float) -> Explanation:
    """From the largest difference of a weight between two ranks."""
    return Explanation(
        measured=_OUTCOMES[3] if furthest == 0 else _OUTCOMES[2],
        because="You get four models, each trained on a quarter of the data. Every log looks healthy, and the file "
        "that rank 0 saves is a model that has seen a quarter of the images.",
        misreadings={
            _OUTCOMES[3]: "They began alike. From the first step on, each saw other images, so each had another "
            "gradient and took another step.",
            _OUTCOMES[0]: "Nothing here is an error to PyTorch: a process group lets ranks send messages, and makes "
            "none of them do so.",
            _OUTCOMES[1]: "A rank that calls no collective waits for nobody.",
        },
    )


def _weights(broadcasts: float, num_tensors: int) -> Explanation:
    """From the broadcasts of one rank in ten steps, and how many parameters there are to send."""
    return Explanation(
        measured=broadcasts / num_tensors,
        because="The weights travel once, at the start. After that only gradients travel: one all-reduce for each "
        "parameter and step. Article A describes another program.",
        misreadings={
            10: "That is how `nn.DataParallel` works, which copies its model anew in every forward pass. Here each "
            "rank takes the step itself.",
            0: "Nearly: once, before the first step, because each rank began with weights of its own.",
        },
    )


def _bytes(sent_bytes: float, gradient_bytes: int) -> Explanation:
    """From what a rank sent in a step, and the size of all gradients."""
    by_model = collective_cost("all_reduce", gradient_bytes, _ANY_LINK, num_ranks=4).bytes_sent[0]
    gradient_kib = gradient_bytes / 1024
    return Explanation(
        measured=round(sent_bytes / 1024, 1),
        model=round(by_model / 1024, 1),
        because="In a ring all-reduce a rank sends 2 (n - 1)/n of the gradients, here one and a half times. It does "
        "not depend on the batch; with more ranks it comes near twice the gradients, and never above.",
        misreadings={
            3 * gradient_kib: "That sends everybody's gradients to everybody. The sum is made on the way.",
            gradient_kib: "With two ranks it would be that; with four it is 2 (n - 1)/n of the gradients, half as much "
            "again.",
        },
        apart="These are counted bytes, not times: noise cannot change them. Look which calls the meter has counted.",
    )


_LAYERS = ("the first layer's", "the last layer's", "all at once")


def _order(came: Sequence[str], forward: Sequence[str]) -> Explanation:
    """From the parts of the model as their gradients came, and as the forward pass goes through them."""
    return Explanation(
        measured=_LAYERS[1] if came[0] == forward[-1] else _LAYERS[0],
        because="So the last layers' gradients can be under way while the first layers' are still being computed.",
        misreadings={
            _LAYERS[2]: "They are all there when `backward()` returns. It comes to the layers one after the other.",
            _LAYERS[0]: "Backward begins at the loss and goes from the end of the model to its beginning.",
        },
    )


def _pieces(sent_kib: float, gradient_bytes: int) -> Explanation:
    return Explanation(
        measured=round(sent_kib),
        model=round(4 * gradient_bytes / 1024),
        because="DDP does not know what a step is: its hooks average after each backward pass. Three of these four "
        "all-reduces are for nothing, because the mean of sums is the sum of means.",
        misreadings={
            gradient_bytes / 1024: "There is one step of the *optimizer*. But every backward pass averages, and there "
            "are four."
        },
        apart="These are counted bytes, not times: noise cannot change them. Look which calls the meter has counted.",
    )


def _reads(dealt: Sequence[Sequence[int]]) -> Explanation:
    """From the indices that each rank was dealt."""
    return Explanation(
        measured=str(sum(map(len, dealt))),
        because="Each rank gets three, and two of the examples come twice. In training that hardly matters; an "
        "accuracy that counts an image twice is wrong.",
        misreadings={
            "10": "Article E says that no two processes share an example. But ten do not divide by four.",
            "8": "That is what `drop_last=True` gives: everybody the same number, and two examples left out.",
        },
    )


_ACCURACIES = ("clearly better", "about the same", "clearly worse")


def _rate(alone: float, together: float) -> Explanation:
    """From the accuracy of one rank and of four, with one learning rate."""
    change = together - alone
    because = "Fewer steps of the same length go less far."
    if change > -0.01:
        because = (
            f"Here the accuracy of the four ranks, with a quarter of the steps, is {100 * change:+.1f} points from "
            "that of the one. Usually fewer steps of one length go less far; a single run can hide it. Try fewer "
            "epochs."
        )
    return Explanation(
        measured=_ACCURACIES[1] if abs(change) < 0.01 else _ACCURACIES[0] if change > 0 else _ACCURACIES[2],
        because=because,
        misreadings={
            _ACCURACIES[1]: "The *step* is the one that one device would take with a batch of 128. That is another run "
            "than one with a batch of 32: a quarter of the steps, each of them as long as before.",
            _ACCURACIES[0]: "Each step's gradient is less noisy, and there are only a quarter as many steps.",
        },
    )


_WHOSE = ("those of one device", "others, and equal on all ranks", "others, and another set on each rank")


def _norm(difference: str, all_equal: bool) -> Explanation:
    """From the lesson's sentence on how far the weights are off, and whether all ranks have the same ones."""
    as_alone = difference.startswith("no weight")
    return Explanation(
        measured=_WHOSE[0] if as_alone else _WHOSE[1] if all_equal else _WHOSE[2],
        because="Each rank normalised by its own six images. With one or two images on a rank those numbers are mostly "
        "noise, and that is where a small batch on each device does harm. The ranks agree all the same, for they took "
        "one mean of their gradients: no comparison of replicas would show it.",
        misreadings={
            _WHOSE[0]: "All gradients were averaged; but they are gradients of another function.",
            _WHOSE[2]: "Each rank computed another function, but its weights move by the mean of all gradients.",
        },
    )


PREDICTIONS = (
    Asked(name="04.apart", question="What do you get?", choices=_OUTCOMES, tell=_apart),
    Asked(
        name="04.weights",
        question="Ten steps: how many times do the weights travel?",
        unit="times",
        high=1000,
        tell=_weights,
    ),
    Asked(
        name="04.bytes",
        question="How much does each of four ranks send in a step?",
        unit="KiB",
        tell=_bytes,
    ),
    CALLS,
    Asked(name="04.order", question="Whose gradient is there first?", choices=_LAYERS, tell=_order),
    BUCKETS,
    Asked(
        name="04.pieces",
        question="4 pieces, one step: what does each of two ranks send?",
        unit="KiB",
        tell=_pieces,
    ),
    Asked(
        name="04.reads",
        question="Ten examples on four ranks: how many are read?",
        choices=("8", "10", "12"),
        tell=_reads,
    ),
    Asked(
        name="04.rate",
        question="The same script on four ranks, same learning rate: what is the accuracy?",
        choices=_ACCURACIES,
        tell=_rate,
    ),
    Asked(
        name="04.norm",
        question="With BatchNorm: which weights come out?",
        choices=_WHOSE,
        tell=_norm,
    ),
    SPEEDUP,
    BREAK_EVEN,
    FLAG,
    UNUSED,
    CRASH,
    SCRIPT,
    *TRACE,
    *TOKENS,
)
