"""``Predict``: commit to an answer before the run, then see it beside the cost model and the measurement.

    p = Predict("00.sum", "How long do four ranks take to add up one number each?", unit="ms")
    p                                          # the last line of a cell: a form; "Lock my answer"
    p.reveal(measured=run.time_s * 1e3, model=0.2, because="...", misreadings={40: "That is four starts,
    ..."})

Values are in the prediction's own unit. A locked answer stays locked for this session of the kernel, also
when the cell that made the prediction runs again; ``p.reset()`` opens it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from course_lib.forms.show import show
from course_lib.learn.checks.hints import HintNote
from course_lib.learn.display.revealed import Reveal, misreading_of
from course_lib.learn.predictions.prediction import Prediction
from course_lib.learn.predictions.stored_value import kept_value
from course_lib.learn.records.store import record

if TYPE_CHECKING:
    from course_lib.learn.predictions.predict_form import PredictForm

__all__ = ["Predict"]


class Predict(Prediction):
    """A prediction that is asked by a form, committed, and revealed beside what was measured."""

    def lock(self, value: Any) -> str:
        """Lock an answer, and note it; the sentence that says how things stand now."""
        was_locked = self.locked
        text = super().lock(value)
        if self.locked and not was_locked:
            record("guess", self.name, kind=self.kind, unit=self.unit or None, value=kept_value(self.value))
        return text

    def commit(self, value: Any) -> HintNote:
        """Lock this answer and say so. One that is locked, or already revealed, stays as it is, and a
        sentence says so.

        Raises ``ValueError`` for an answer of the wrong kind.
        """
        note = HintNote("prediction", self.lock(value))
        show(note)
        return note

    def reveal(
        self,
        *,
        measured: Any,
        model: Any = None,
        label: str = "measured",
        because: str = "",
        misreadings: Mapping[Any, str] | None = None,
        apart: str = "",
        yours: str = "",
    ) -> Reveal:
        """Show predicted, cost model and measured side by side, and why they differ.

        ``label`` says what stands in the place of a measurement where nothing was measured, such as "computed".
        ``misreadings`` maps a wrong answer, or a function ``(predicted) -> bool``, to the sentence that names
        what such an answer mixes up. ``apart`` is said where run and model disagree, ``yours`` of what the learner's
        own cost in this run. Without a prediction the rest is shown all the same.
        """
        predicted = self.value
        sentence = "" if predicted is None else misreading_of(predicted, misreadings or {})
        reveal = Reveal(
            self.question,
            self.kind,
            self.unit,
            predicted,
            model,
            measured,
            because,
            sentence,
            label,
            apart,
            yours,
        )
        if not self._kept.revealed and predicted is not None:
            record(
                "predict",
                self.name,
                kind=self.kind,
                unit=self.unit or None,
                right=reveal.is_right,
                off=reveal.off,
                predicted=kept_value(predicted),
                model=kept_value(model),
                measured=kept_value(measured),
                label=None if label == "measured" else label,
            )
        self._kept.revealed = True
        self._tell_watchers()
        show(reveal)
        return reveal

    def form(self) -> PredictForm:
        """The form, as an ipywidgets box."""
        # It takes ipywidgets along, so only where a form is shown.
        from course_lib.learn.predictions.predict_form import PredictForm

        return PredictForm(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return self.form().bundle(repr(self))
