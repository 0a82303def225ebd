"""The spans on which 11.exposed is tried: what overlaps, touches, lies inside, is empty, or comes twice."""

from __future__ import annotations

import random

__all__ = ["CASES"]

Spans = list[tuple[float, float, str]]
_COMPUTE, _TALK, _READ = "compute", "communication", "data"


def _many() -> Spans:
    """Forty spans on a grid, in no order; overlaps of every sort."""
    dice = random.Random(11)
    spans = []
    for _ in range(40):
        begin = dice.randrange(400)
        kind = dice.choice((_COMPUTE, _TALK, _TALK, _READ))
        spans.append((begin / 8, (begin + dice.randrange(14)) / 8, kind))
    return spans


CASES: dict[str, Spans] = {
    "an all-reduce after the computing": [(0.0, 2.0, _COMPUTE), (2.0, 5.0, _TALK)],
    "an all-reduce of which half is hidden": [(0.0, 3.0, _COMPUTE), (2.0, 4.0, _TALK)],
    "an all-reduce that is hidden": [(0.0, 5.0, _COMPUTE), (1.0, 2.5, _TALK)],
    "computing in the middle of an all-reduce": [(0.0, 6.0, _TALK), (2.0, 3.0, _COMPUTE)],
    "idle time between computing and an all-reduce": [(0.0, 1.0, _COMPUTE), (4.0, 5.0, _TALK)],
    "two messages at once": [(0.0, 1.0, _COMPUTE), (1.0, 4.0, _TALK), (2.0, 6.0, _TALK)],
    "two messages at once, half hidden": [(1.0, 4.0, _TALK), (2.0, 6.0, _TALK), (2.0, 5.0, _COMPUTE)],
    "a message inside another, and one that follows": [
        (0.0, 8.0, _TALK),
        (1.0, 2.0, _TALK),
        (7.0, 9.0, _TALK),
    ],
    "computing inside other computing": [(0.0, 8.0, _COMPUTE), (1.0, 2.0, _COMPUTE), (5.0, 9.0, _TALK)],
    "the same span twice": [(0.0, 2.0, _TALK), (0.0, 2.0, _TALK), (1.5, 3.0, _COMPUTE), (1.5, 3.0, _COMPUTE)],
    "an all-reduce hidden by two spans that touch": [
        (0.0, 2.0, _COMPUTE),
        (2.0, 4.0, _COMPUTE),
        (1.0, 3.0, _TALK),
    ],
    "computing in two parts beside one message": [
        (1.0, 2.0, _COMPUTE),
        (3.0, 4.5, _COMPUTE),
        (0.0, 5.0, _TALK),
    ],
    "spans in no order": [(6.0, 7.0, _TALK), (3.0, 4.0, _COMPUTE), (0.0, 2.0, _TALK), (3.5, 6.5, _TALK)],
    "spans of no length": [(1.0, 1.0, _COMPUTE), (0.0, 2.0, _TALK), (3.0, 3.0, _TALK), (0.0, 0.0, _TALK)],
    "a message while data is read": [(0.0, 2.0, _READ), (1.0, 3.0, _TALK), (2.5, 4.0, _COMPUTE)],
    "data that is read while nothing else happens": [(0.0, 3.0, _READ), (3.0, 4.0, _TALK), (5.0, 6.0, _READ)],
    "no spans at all": [],
    "messages alone": [(2.0, 3.0, _TALK), (5.0, 5.5, _TALK)],
    "computing alone": [(2.0, 3.0, _COMPUTE), (5.0, 5.5, _COMPUTE)],
    "microseconds, after a minute": [(60.0, 60.0 + 3e-6, _TALK), (60.0 + 1e-6, 60.0 + 2e-6, _COMPUTE)],
    "microseconds between two spans of computing": [
        (0.0, 1.0, _TALK),
        (0.0, 0.5, _COMPUTE),
        (0.500004, 1.0, _COMPUTE),
    ],
    "a clock that begins below zero": [(-2.0, 1.0, _TALK), (-1.0, 0.5, _COMPUTE)],
    "times that are no round numbers": [(0.1, 0.7, _COMPUTE), (0.3, 1.1, _TALK), (1.7, 2.9, _TALK)],
    "forty spans": _many(),
}
