"""What a prediction meets: a table of predicted, cost model and measured, and the sentences that explain
it.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from course_lib.learn.show import Shown, panel, paragraph, table
from course_lib.learn.units import quantity, ratio

__all__ = ["Reveal", "misreading_of"]

_CLOSE = 1.25  # a prediction within this factor counts as right


@dataclass(frozen=True, repr=False)
class Reveal(Shown):
    """Predicted, model and measured, in the prediction's unit; ``predicted`` None: there was no
    prediction.
    """

    question: str
    kind: str
    unit: str
    predicted: Any
    model: Any
    measured: Any
    because: str = ""
    misreading: str = ""
    label: str = "measured"

    @property
    def off(self) -> float | None:
        """Predicted over measured, for numbers of one sign; else None."""
        pair = (self.predicted, self.measured)
        if self.kind != "number" or not all(isinstance(v, numbers.Real) for v in pair):
            return None
        predicted, measured = map(float, pair)
        return round(predicted / measured, 4) if predicted * measured > 0 else None

    @property
    def is_right(self) -> bool | None:
        """Whether the prediction hit: the same choice or order, or a number within a quarter. None without
        one.
        """
        if self.predicted is None:
            return None
        if self.kind != "number":
            return _plain(self.predicted) == _plain(self.measured)
        return self.predicted == self.measured or (self.off is not None and 1 / _CLOSE <= self.off <= _CLOSE)

    def verdict(self) -> str:
        """The comparison in a sentence."""
        if self.predicted is None:
            return "You did not predict. Lock an answer first next time: a surprise teaches more than a fact."
        if self.kind == "number":
            return f"Your prediction: {ratio(float(self.predicted), float(self.measured))}."
        return "As you predicted." if self.is_right else "Not as you predicted."

    def _rows(self) -> list[list[str]]:
        rows = [
            ["you predicted", self.predicted],
            ["the cost model says", self.model],
            [self.label, self.measured],
        ]
        return [self._row(name, value) for name, value in rows if value is not None]

    def _row(self, name: str, value: Any) -> list[str]:
        row = [name, quantity(value, self.unit)]
        if self.kind != "number":
            return row
        measured = float(self.measured)
        if name == self.label:
            return [*row, ""]
        comparable = measured != 0 and float(value) * measured > 0
        return [*row, quantity(float(value) / measured) if comparable else "–"]

    def _sentences(self) -> list[str]:
        return [text for text in (self.verdict(), self.misreading, self.because) if text]

    def __repr__(self) -> str:
        values = "; ".join(f"{row[0]}: {row[1]}" for row in self._rows())
        return f"{self.question}\n  {values}.\n  " + "\n  ".join(self._sentences())

    def _html(self) -> str:
        head = ["", "value"] + ([f"÷ {self.label}"] if self.kind == "number" else [])
        body = table(head, self._rows()) + "".join(paragraph(text) for text in self._sentences())
        return panel("info", self.question, body)


def misreading_of(predicted: Any, misreadings: Mapping[Any, str]) -> str:
    """The sentence of the first misreading that the prediction fits: an equal value (numbers: within 2 %), or
    a function that says yes."""
    for key, sentence in misreadings.items():
        if callable(key):
            fits = bool(key(predicted))
        elif isinstance(key, numbers.Real) and isinstance(predicted, numbers.Real):
            fits = math.isclose(float(key), float(predicted), rel_tol=0.02)
        else:
            fits = _plain(key) == _plain(predicted)
        if fits:
            return sentence
    return ""


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
