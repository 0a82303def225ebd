"""What a learner's untouched stub says when it is called."""

from __future__ import annotations

__all__ = ["has_words_of_a_stub"]

_YOUR_TURN = "Your turn"


def has_words_of_a_stub(message: str) -> bool:
    """Whether a ``NotImplementedError`` may be the course's: a learner's own says something else."""
    return not message or message.startswith(_YOUR_TURN)
