"""``Predict``: commit to an answer before the run, then see it beside the cost model and the measurement.

    p = Predict("00.sum", "How long do four ranks take to add up one number each?", unit="ms")
    p                                          # the last line of a cell: a form; "Lock my answer"
    p.reveal(measured=run.time_s * 1e3, model=0.2, because="...", misreadings={40: "That is four starts,
    ..."})

Values are in the prediction's own unit. A locked answer stays locked for this session of the kernel, also
when the cell that made the prediction runs again; ``p.reset()`` opens it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from course_lib.learn.hints import Note
from course_lib.learn.reveal import Reveal, misreading_of
from course_lib.learn.show import show
from course_lib.learn.store import record
from course_lib.learn.units import quantity

if TYPE_CHECKING:
    from course_lib.learn.predict_form import PredictForm

__all__ = ["Predict"]


@dataclass
class _Kept:
    """What this session remembers of one prediction."""

    value: Any = None
    locked: bool = False
    revealed: bool = False


_session: dict[str, _Kept] = {}


class Predict:
    """A question to be answered before the run: a number with its unit, a choice, or an order.

    ``choices`` makes it a choice, ``order`` a list to be put in order; otherwise it asks for a number between
    ``low`` and ``high``. ``name`` ("00.sum") identifies it in this session and in the learner's progress.
    """

    def __init__(
        self,
        name: str,
        question: str,
        *,
        unit: str = "",
        choices: Sequence[str] | None = None,
        order: Sequence[str] | None = None,
        low: float = 0.0,
        high: float = 1e15,
    ) -> None:
        if choices is not None and order is not None:
            raise ValueError(
                f"prediction {name!r} has both choices and order; give one, or neither for a number"
            )
        options = tuple(choices if choices is not None else order if order is not None else ())
        if len(options) == 1 or len(set(options)) != len(options):
            raise ValueError(f"prediction {name!r}: {list(options)} needs two different options at least")
        if low >= high:
            raise ValueError(f"prediction {name!r}: low={low} must be less than high={high}")
        self.name, self.question, self.unit = name, question, unit
        self.kind = "choice" if choices is not None else "order" if order is not None else "number"
        self.options, self.low, self.high = options, low, high
        self._forms: list[PredictForm] = []
        self._kept = _session.setdefault(name, _Kept())
        if self._kept.locked and not self._allows(self._kept.value):
            self.reset()  # the question has been rewritten since

    @property
    def value(self) -> Any:
        """The locked answer, in the prediction's unit; None while there is none."""
        return self._kept.value if self._kept.locked else None

    @property
    def locked(self) -> bool:
        return self._kept.locked

    @property
    def revealed(self) -> bool:
        return self._kept.revealed

    def commit(self, value: Any) -> Note:
        """Lock this answer and say so. One that is locked, or already revealed, stays as it is, and a
        sentence says so.

        Raises ``ValueError`` for an answer of the wrong kind.
        """
        note = Note("prediction", self.lock(value))
        show(note)
        return note

    def lock(self, value: Any) -> str:
        """What :meth:`commit` does, shown by nobody: the sentence alone."""
        answer = self._checked(value)
        if self._kept.locked and answer != self._kept.value:
            text = f"Your answer is locked: {self.words(self._kept.value)}. `reset()` opens it."
        elif self._kept.revealed and not self._kept.locked:
            text = "The measurement has been shown, so it cannot be predicted; `reset()` begins afresh."
        else:
            self._kept.value, self._kept.locked = answer, True
            text = f"Your answer is locked: {self.words(answer)}. Now run the next cell."
        self._update_forms()
        return text

    def reset(self) -> None:
        """Forget the answer of this session, so that it can be given again."""
        self._kept.value, self._kept.locked, self._kept.revealed = None, False, False
        self._update_forms()

    def reveal(
        self,
        *,
        measured: Any,
        model: Any = None,
        label: str = "measured",
        because: str = "",
        misreadings: Mapping[Any, str] | None = None,
    ) -> Reveal:
        """Show predicted, cost model and measured side by side, and why they differ.

        ``label`` says what stands in the place of a measurement where nothing was measured, such as "computed".
        ``misreadings`` maps a wrong answer, or a function ``(predicted) -> bool``, to the sentence that names
        what such an answer mixes up. Without a prediction the rest is shown all the same.
        """
        predicted = self.value
        sentence = "" if predicted is None else misreading_of(predicted, misreadings or {})
        reveal = Reveal(
            self.question, self.kind, self.unit, predicted, model, measured, because, sentence, label
        )
        if not self._kept.revealed and predicted is not None:
            record(
                "predict",
                self.name,
                kind=self.kind,
                unit=self.unit or None,
                right=reveal.is_right,
                off=reveal.off,
            )
        self._kept.revealed = True
        self._update_forms()
        show(reveal)
        return reveal

    def _allows(self, value: Any) -> bool:
        try:
            self._checked(value)
        except ValueError:
            return False
        return True

    def _checked(self, value: Any) -> Any:
        if self.kind == "number":
            return self._checked_number(value)
        if self.kind == "choice":
            if value not in self.options:
                raise ValueError(
                    f"{value!r} is not a choice of {self.name}; the choices are {list(self.options)}"
                )
            return value
        items = tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
        if sorted(map(str, items)) != sorted(self.options):
            raise ValueError(f"{list(items)} is no order of {list(self.options)}; name each of them once")
        return items

    def _checked_number(self, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ValueError(f"{value!r} is not a number; {self.name} asks for one{self._in_unit()}")
        if not self.low <= value <= self.high:
            nearest = self.low if value < self.low else self.high
            bounds = f"from {self.low:g} to {self.high:g}{self._in_unit()}"
            raise ValueError(f"{value!r} is outside {self.name}'s range {bounds}; the nearest is {nearest:g}")
        return value if isinstance(value, int) else float(value)

    def _in_unit(self) -> str:
        return f" in {self.unit}" if self.unit else ""

    def words(self, value: Any) -> str:
        """A value of this prediction with its unit, as text."""
        return quantity(value, self.unit)

    def _update_forms(self) -> None:
        for form in self._forms:
            form.refresh()

    def form(self) -> PredictForm:
        """The form, as an ipywidgets box."""
        from course_lib.learn.predict_form import PredictForm

        self._forms.append(PredictForm(self))
        return self._forms[-1]

    def __repr__(self) -> str:
        if self.locked:
            return f"Prediction: {self.question} Your answer is locked: {self.words(self.value)}."
        how = {
            "number": f"Lock a number{self._in_unit()}: commit(12).",
            "choice": f"Lock one of {list(self.options)}: commit({self.options[0]!r})."
            if self.options
            else "",
            "order": f"Lock an order of {list(self.options)} with commit([...]).",
        }[self.kind]
        return f"Prediction: {self.question} {how}"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        form: Callable[..., dict[str, Any]] = self.form()._repr_mimebundle_
        return {**form(), "text/plain": repr(self)}
