"""What is kept of an answer: its text, and the imports and helpers of the notebook that it needs."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["AnswerSource", "NotKeptError", "SourcePart"]


class NotKeptError(Exception):
    """An answer that has passed and cannot be kept; the text says why and what to do, as a sentence."""


@dataclass(frozen=True)
class SourcePart:
    """A statement that binds ``name``: an import, a helper, or the answer itself."""

    name: str
    text: str
    is_import: bool = False


@dataclass(frozen=True)
class AnswerSource:
    """An answer as statements: ``parts`` in an order in which they can run, the answer last, and its name there."""

    parts: tuple[SourcePart, ...]
    answer: str
