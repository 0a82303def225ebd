"""08.between: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from typing import Any

EXERCISE = "08.between"
EXAMPLES: dict[str, Any] = {
    "rows-then-columns": {"A": "S(0)", "B": "S(1)"},
    "columns-twice": {"A": "S(1)", "B": "S(1)"},
    "rows-twice": {"A": "S(0)", "B": "S(0)"},
    "not-cut": {"A": "R", "B": "R"},
    "half-cut": {"A": "S(1)", "B": "R"},
}
