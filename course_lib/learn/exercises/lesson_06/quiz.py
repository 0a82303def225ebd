"""The quiz of lesson 06; right answers are counted or computed."""

from __future__ import annotations

from course_lib.cost.single_device.model_state import model_state
from course_lib.learn.catalogue.quiz_spec import Question
from course_lib.parallel.model import split_evenly

__all__ = ["QUIZ"]

_MIB = 2**20


def _share_at_work(num_parts: int) -> float:
    """Equal parts, one batch: each part works, forward and backward, while all others wait."""
    moments = [(part, way) for way in ("forward", "backward") for part in range(num_parts)]
    return sum(part == 0 for part, _ in moments) / len(moments)


def _messages(num_parts: int, num_batches: int) -> int:
    """An activation to the right and its gradient to the left, over every cut, for every batch."""
    cuts = num_parts - 1
    return num_batches * (cuts + cuts)


def _crossing_bytes(batch: int, tokens: int, width: int, num_cuts: int) -> int:
    return 2 * num_cuts * batch * tokens * width * 4


def _largest(costs: tuple[int, ...], num_parts: int) -> int:
    return max(sum(costs[i] for i in part) for part in split_evenly(costs, num_parts))


_WAYS = ("copy the model to all of them", "cut the model by layers", "use larger batches")


def _fits(way: str, num_devices: int = 4) -> bool:
    """A model of 10 GB of weights under AdamW, four devices of 48 GB, activations left aside."""
    state = model_state(10 * 10**9 // 4, optimizer="adamw").total
    held = {_WAYS[0]: state, _WAYS[1]: state / num_devices, _WAYS[2]: state}[way]
    return held <= 48 * 10**9 * 0.8  # leaves room for activations


QUIZ = (
    Question(
        name="share",
        text="Eight equal parts on eight devices, one batch at a time. What share of the time does a device work?",
        choices=(1.0, 0.5, 0.25, _share_at_work(8)),
        answer=lambda: _share_at_work(8),
        misconceptions={
            1.0: "A device works while the batch is in its part, and the batch is in one part at a time.",
            0.5: "That is two parts. Forward and backward both pass through all eight.",
            0.25: "It works in one eighth of the forward pass and one eighth of the backward pass: one eighth in all.",
        },
        because="The batch is in one of eight places. More devices make the model larger, not the step shorter.",
        show=lambda share: f"{share:.1%}",
    ),
    Question(
        name="messages",
        text="Four parts, one batch there and back. How many messages in all?",
        choices=(3, _messages(4, 1), 8, 12),
        answer=lambda: _messages(4, 1),
        misconceptions={
            3: "Those are the activations. Their gradients come back over the same cuts.",
            8: "Four parts have three cuts between them.",
            12: "A rank talks to its neighbours, not to everybody.",
        },
        because="Three cuts, each crossed once by an activation and once by its gradient.",
    ),
    Question(
        name="what_crosses",
        text="Twice as many layers, on the same number of devices. What happens to the bytes between the devices?",
        choices=("they double", "they stay as they are", "they halve"),
        answer=lambda: (
            "they stay as they are"
            if _crossing_bytes(8, 128, 512, 3) == _crossing_bytes(8, 128, 512, 4 - 1)
            else "they double"
        ),
        misconceptions={
            "they double": "Ranks never send weights here, nor what stays inside a part. They send the activation at a "
            "cut.",
            "they halve": "The number of cuts has not changed, nor the activation at each cut.",
        },
        because="What crosses a cut is one activation: batch times tokens times width, for any depth.",
    ),
    Question(
        name="cut",
        text="Pieces cost 9, 5, 3, 2, 1, 1 ms. You cut them in two as evenly as possible. How long does the slower "
        "part take?",
        choices=(_largest((9, 5, 3, 2, 1, 1), 2), 10.5, 14, 17),
        answer=lambda: _largest((9, 5, 3, 2, 1, 1), 2),
        misconceptions={
            10.5: "That would be half of it. No cut between two layers gives it.",
            14: "That is the first two pieces together. Cut one piece earlier, and look at the larger part.",
            17: "That is a cut with three pieces in each part: the numbers of pieces are equal, but not the costs.",
        },
        because="One part takes 9 ms, the other 12 ms. A cut can only fall between two pieces.",
        show=lambda time_ms: f"{time_ms:g} ms",
    ),
    Question(
        name="fits",
        text="A model has 10 GB of float32 weights and trains with AdamW. You have four devices of 48 GB. What makes "
        "weights, gradients and optimizer state fit, with a fifth of each device left for activations?",
        choices=_WAYS,
        answer=lambda: next(way for way in _WAYS if _fits(way)),
        misconceptions={
            _WAYS[0]: "Then every device holds everything, four times the weights: data parallelism pools no memory.",
            _WAYS[2]: "The state does not depend on the batch, and activations grow with it.",
        },
        because="Weights, gradients and two moments are four times 10 GB; a quarter of that is 10 GB for each device. "
        "Sharding (lesson 05) would do it too.",
    ),
)
