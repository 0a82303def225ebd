"""Of tests that show more of the same: how many of their cases run each time. ``--long`` runs them all.

A list of answers that were once let through, a grid of sizes: each case is worth keeping, and none needs to be seen at
every push. ``@pytest.mark.first_cases(3)`` above such a test keeps its first three cases, so what matters most stands
first; ``@pytest.mark.long`` keeps none.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest


def more_of_the_same(items: list[pytest.Item]) -> list[pytest.Item]:
    """The cases that wait for ``--long``, because as many as are kept stand before them."""
    seen: Counter[tuple[Path, str]] = Counter()
    waiting = []
    for item in items:
        mark = item.get_closest_marker("first_cases")
        if mark is None or item.get_closest_marker("long"):
            continue
        name = getattr(item, "originalname", item.name)
        seen[item.path, name] += 1
        if seen[item.path, name] > mark.args[0]:
            waiting.append(item)
    return waiting
