"""The sizes with which 10.zigzag is tried, ranks and positions."""

from __future__ import annotations

__all__ = ["MANY_RANKS", "SIZES"]

MANY_RANKS = 24

SIZES = (
    (4, 64),
    (2, 16),
    (1, 7),
    (4, 37),  # a remainder of 5 over 8 parts
    (3, 20),
    (2, 101),
    (8, 160),
    (5, 10),  # parts of one position
    (4, 6),  # some parts are empty
    (4, 3),  # and a rank, too
    (6, 1000),
    (2, 0),  # no position at all
    (MANY_RANKS, 500),
)
