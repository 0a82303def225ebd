"""Part d of lesson 07: which of two messages is in the room that was made for the other."""

from __future__ import annotations

from collections.abc import Sequence

from course_lib.learn.catalogue.prediction_spec import Asked, Explanation

__all__ = ["ARRIVAL"]

_ACTIVATIONS, _GRADIENT, _NEITHER = "the activations", "the gradient", "nothing: the ranks wait for each other"

_MISREADINGS = {
    _ACTIVATIONS: "They were sent, and the room was made for them. But nothing in a message says what it is.",
    _GRADIENT: "It was sent first. But here something kept the two messages apart.",
    _NEITHER: "Each send finds a receive, even the wrong one, so no rank waits for ever.",
}
_IN_ORDER = (
    "Between two ranks messages arrive in the order in which they were sent, and the n-th receive gets the n-th "
    "message. A message has no name. With two messages of different sizes you would get an error at best. (gloo has "
    "tags that distinguish messages. NCCL ignores them.)"
)
_TOLD_APART = "Here each receive got the right message: something distinguished them. Do not rely on it."


def _arrival(came: Sequence[float]) -> Explanation:
    """From the numbers in the room for activations: activations are 1, gradients -1."""
    measured = _GRADIENT if all(number == -1 for number in came) else _ACTIVATIONS
    misread = {choice: why for choice, why in _MISREADINGS.items() if choice != measured}
    because = _IN_ORDER if measured == _GRADIENT else _TOLD_APART
    return Explanation(measured=measured, because=because, misreadings=misread)


ARRIVAL = (
    Asked(
        name="07.arrival",
        question="A gradient is sent, then activations. The first receive is for the activations: what does it get?",
        choices=(_ACTIVATIONS, _GRADIENT, _NEITHER),
        tell=_arrival,
    ),
)
