"""Sentences that a rule over wordings finds, and that stand all the same: where, how they begin, and why.

No reason lets a sentence of more than 25 words stand in a lesson: two sentences say the same.
"""

from __future__ import annotations

__all__ = ["REASONED"]

REASONED: dict[str, dict[str, str]] = {
    "docs/at-scale.md": {"Measured by:": "a list of sources, each with its year, its number and its table"},
    "docs/instructor/lessons/02.md": {'"It is a ring': "what a learner says, in the learner's words"},
}
"""For each page by its name: the beginnings of sentences that stand, each with the reason."""
