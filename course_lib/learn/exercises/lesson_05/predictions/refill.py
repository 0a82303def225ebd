"""Part g of lesson 05: a weight whose memory went and came back, and what backward says of it."""

from __future__ import annotations

from course_lib.learn.catalogue.prediction_spec import Asked, Explanation

__all__ = ["REFILL"]

_RIGHT, _REFUSES, _WRONG = "it gives the right gradients", "it refuses with an error", "it gives wrong gradients"


_COUNTS = (
    "Autograd looks at no number. Each tensor counts how often it was written to, and whatever shares its memory by "
    "`detach()` counts with it. Backward compares the count with that of the moment when the tensor was saved. "
)
_BECAUSE = {
    "refused": _COUNTS
    + "It was written to since, so backward refuses: it cannot know that these are the same numbers.",
    "right": _COUNTS + "Nobody counted a write here, and the numbers are the right ones.",
    "wrong": _COUNTS + "Nobody counted a write here, and other numbers came back than went.",
}

_MISREADINGS = {
    _RIGHT: "The numbers are the right ones. But autograd does not compare numbers, it counts writes.",
    _WRONG: "Autograd would rather say nothing than something wrong: it counts writes to what it has saved.",
    _REFUSES: "An error comes where autograd has counted a write to what it saved. Here it counted none.",
}


def _refill(came: str) -> Explanation:
    """From what came of backward: "right", "refused" or "wrong"."""
    measured = {"right": _RIGHT, "refused": _REFUSES, "wrong": _WRONG}[came]
    misread = {choice: why for choice, why in _MISREADINGS.items() if choice != measured}
    return Explanation(measured=measured, because=_BECAUSE[came], misreadings=misread)


REFILL = (
    Asked(
        name="05.refill",
        question="A saved weight was emptied, and filled again with the same numbers: what does backward do?",
        choices=(_RIGHT, _REFUSES, _WRONG),
        tell=_refill,
    ),
)
