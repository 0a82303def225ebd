"""What a prediction meets: a table of predicted, cost model and measured, and the sentences that explain
it.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from course_lib.forms.show import Shown, panel, paragraph, table
from course_lib.learn.display.units import quantity, ratio

__all__ = ["Reveal", "misreading_of"]

_CLOSE = 1.25  # numbers within this factor of each other agree


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
    apart: str = ""
    yours: str = ""  # what the learner's own cost in this run

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
        """Whether the prediction agrees with the run or with the model: a run can be noisy. None without one."""
        if self.predicted is None:
            return None
        return _agree(self.predicted, self.measured) or _agree(self.predicted, self.model)

    @property
    def is_apart(self) -> bool:
        """Whether there is a model, and it says something else than the run."""
        return self.model is not None and not _agree(self.model, self.measured)

    def verdict(self) -> str:
        """The comparison in a sentence."""
        if self.predicted is None:
            return "You did not predict. Lock an answer first next time: a surprise teaches more than a fact."
        agrees_with_model_alone = self.is_right and not _agree(self.predicted, self.measured)
        if self.kind != "number":
            as_model = " It is what the cost model says." if agrees_with_model_alone else ""
            return "As you predicted." if self.is_right and not as_model else f"Not as you predicted.{as_model}"
        beside_run = ratio(float(self.predicted), float(self.measured), self.unit)
        if agrees_with_model_alone:
            beside_model = ratio(float(self.predicted), float(self.model), self.unit)
            return f"Your prediction, held against the cost model: {beside_model}; against the run: {beside_run}."
        return f"Your prediction: {beside_run}."

    def disagreement(self) -> str:
        """Where run and model are apart: that they are, and how to find out why. Else nothing."""
        if not self.is_apart:
            return ""
        how = self.apart or (
            "Run the cells above once more. If the number moves, other work on this machine is in it; if it stays, the "
            "model leaves something out here."
        )
        return f"Here the cost model and the run are apart. {how}"

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
        misreading = "" if self.is_right else self.misreading
        texts = (self.verdict(), misreading, self.because, self.yours, self.disagreement())
        return [text for text in texts if text]

    def __repr__(self) -> str:
        values = "; ".join(f"{row[0]}: {row[1]}" for row in self._rows())
        return f"{self.question}\n  {values}.\n  " + "\n  ".join(self._sentences())

    def _html(self) -> str:
        rows = self._rows()
        is_compared = self.kind == "number" and len(rows) > 1  # with a single row the column would be empty
        head = ["", "value"] + ([f"÷ {self.label}"] if is_compared else [])
        body = table(head, [row[: len(head)] for row in rows]) + "".join(paragraph(text) for text in self._sentences())
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


def _agree(one: Any, other: Any) -> bool:
    """The same choice or order, or numbers within a quarter of each other."""
    numbers_both = isinstance(one, numbers.Real) and isinstance(other, numbers.Real)
    if not numbers_both or one == other:
        return bool(_plain(one) == _plain(other))
    a, b = float(one), float(other)
    return a * b > 0 and 1 / _CLOSE <= a / b <= _CLOSE


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
