"""Numbers as the planner prints them."""

from __future__ import annotations

__all__ = ["three_digits"]


def three_digits(value: float) -> str:
    """Three digits, and all of those before the point: 0.123, 2.20, 79.0, 4,020.

    >>> three_digits(79), three_digits(4020.4)
    ('79.0', '4,020')
    """
    return f"{value:,.0f}" if value >= 99.95 else f"{value:#.3g}"
