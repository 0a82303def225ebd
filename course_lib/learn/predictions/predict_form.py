"""The form of a prediction: labelled boxes and one button, all reachable by keyboard."""

from __future__ import annotations

from typing import Any

import ipywidgets as widgets

from course_lib.forms import Form
from course_lib.forms.show import paragraph
from course_lib.learn.display.units import number_as_typed, of_one
from course_lib.learn.predictions.prediction import Prediction

__all__ = ["PredictForm", "parse_number"]

_LAYOUT = {"width": "auto", "min_width": "16em", "max_width": "40em"}
_STYLE = {"description_width": "initial"}
_TYPED_AS = {
    "µs": ("us",), "times": ("x", "×", "time"), "x": ("times", "×", "time"), "%": ("percent", "per cent"),
}  # fmt: skip
_NOT_CHOSEN = "choose ..."  # its value is the empty text: an index of its own, unlike None


class PredictForm(Form):
    """Question, input, the button "Lock my answer", and a line that says how things stand."""

    def __init__(self, prediction: Prediction) -> None:
        self._prediction = prediction
        self.inputs = tuple(_inputs(prediction))
        self.button = widgets.Button(description="Lock my answer", tooltip="Lock my answer", icon="lock")
        self.status = widgets.HTML()
        self.button.on_click(self._lock)
        question = widgets.HTML(f"<strong>{paragraph(prediction.question)}</strong>")
        super().__init__([question, *self.inputs, self.button, self.status])
        self.add_class("course-answers")  # sent when they are complete, see keys.js
        prediction.watch(self.refresh)
        self.refresh()

    def refresh(self, *, once_more: bool = False) -> None:
        """Show how the prediction stands: open, locked or revealed. The button stays, so that the focus does too."""
        prediction = self._prediction
        closed = prediction.locked or prediction.revealed
        if prediction.locked:
            self._fill(prediction.value)
            said = "Already locked" if once_more else "Locked"
            text = f"✓ {said}: {prediction.words(prediction.value)}. Now run the next cell."
        elif prediction.revealed:
            text = (
                "The measurement has been shown, so this can no longer be predicted. To try once more, run "
                f"`{prediction.anew}` in a cell of its own."
            )
        else:
            text = "○ Open: nobody sees your answer, and a wrong one teaches more than none."
        for control in self.inputs:
            control.disabled = closed
        self.status.value = paragraph(text)

    def _fill(self, value: Any) -> None:
        if self._prediction.kind == "number":
            self.inputs[0].value = f"{value:.12g}"
            return
        for control, item in zip(self.inputs, value if self._prediction.kind == "order" else (value,), strict=True):
            control.value = item

    def _lock(self, _: widgets.Button) -> None:
        if self._prediction.locked or self._prediction.revealed:
            self.refresh(once_more=True)
            return
        try:
            self._prediction.lock(self._given())
        except ValueError as error:
            self.status.value = paragraph(f"✗ {str(error)[0].upper()}{str(error)[1:].rstrip('.')}.")

    def _given(self) -> Any:
        values = [control.value for control in self.inputs]
        if any(value in (None, "") for value in values):
            raise ValueError("give an answer first, then lock it")
        if self._prediction.kind == "number":
            return parse_number(values[0], self._prediction.unit)
        return values if self._prediction.kind == "order" else values[0]


def parse_number(text: str, unit: str = "") -> float:
    """The number that a person typed: "3.5", "3,5", "1,000", "2e6", with or without its unit."""
    text = text.strip().replace("μ", "µ")  # the Greek letter looks like the micro sign
    ending = max((each for each in _units_as_typed(unit) if text.lower().endswith(each.lower())), key=len, default="")
    try:
        number = number_as_typed(text[: len(text) - len(ending)])
    except ValueError:
        within = f" in {unit}," if unit else ""
        raise ValueError(f"{text!r} is not a number; write it{within} like 12 or 0.5") from None
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def _units_as_typed(unit: str) -> set[str]:
    """What may stand behind a number: the unit, its first word, one of it, and other ways to write it."""
    first = unit.partition(" ")[0]
    return {unit, first, of_one(unit), *_TYPED_AS.get(first, ())}


def _inputs(prediction: Prediction) -> list[widgets.Widget]:
    if prediction.kind == "number":
        label = f"Your prediction, in {prediction.unit}:" if prediction.unit else "Your prediction:"
        # Not with every letter: while the kernel is busy, a page keeps back all changes of a box but the first, and
        # not the press of a button. "1", "12" and a quick press would lock 1.
        options = {"placeholder": "a number", "continuous_update": False}
        return [widgets.Text(description=label, style=_STYLE, layout=_LAYOUT, **options)]
    options = [(_NOT_CHOSEN, ""), *((text, text) for text in prediction.options)]
    labels, style = ["Your prediction:"], _STYLE
    if prediction.kind == "order":
        labels = [f"{_ordinal(place)}:" for place in range(1, len(prediction.options) + 1)]
        style = {"description_width": "2.5em"}  # the boxes stand below each other
    return [widgets.Dropdown(options=options, description=text, style=style, layout=_LAYOUT) for text in labels]


def _ordinal(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th") if number % 100 not in (11, 12, 13) else "th"
    return f"{number}{ending}"
