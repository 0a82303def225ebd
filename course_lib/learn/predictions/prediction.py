"""A question to be answered before the run, and the answer that this session of the kernel remembers.

How it is asked in a notebook, and what it is held against after the run, is in ``predict.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from course_lib.learn.display.units import quantity

__all__ = ["Prediction"]


@dataclass
class _Kept:
    """What this session remembers of one prediction."""

    value: Any = None
    locked: bool = False
    revealed: bool = False
    watchers: list[Callable[[], None]] = field(default_factory=list)  # forms in any cell that asks it


_session: dict[str, _Kept] = {}


class Prediction:
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
            raise ValueError(f"prediction {name!r} has both choices and order; give one, or neither for a number")
        options = tuple(choices if choices is not None else order if order is not None else ())
        if len(options) == 1 or len(set(options)) != len(options):
            raise ValueError(f"prediction {name!r}: {list(options)} needs two different options at least")
        if low >= high:
            raise ValueError(f"prediction {name!r}: low={low} must be less than high={high}")
        self.name, self.question, self.unit = name, question, unit
        self.kind = "choice" if choices is not None else "order" if order is not None else "number"
        self.options, self.low, self.high = options, low, high
        self._kept = _session.setdefault(name, _Kept())
        if self._kept.locked and not self._allows(self._kept.value):
            self.reset()  # the question has been rewritten since, and its old forms ask another one
            self._kept.watchers.clear()

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

    @property
    def anew(self) -> str:
        """The line that opens it again."""
        return f'ask("{self.name}").reset()'

    def lock(self, value: Any) -> str:
        """Lock an answer; the sentence that says how things stand now. Raises ``ValueError`` for the wrong kind."""
        answer = self._checked(value)
        if self._kept.locked and answer != self._kept.value:
            text = f"Your answer is locked: {self.words(self._kept.value)}. `{self.anew}` opens it."
        elif self._kept.revealed and not self._kept.locked:
            text = f"The measurement has been shown, so it cannot be predicted; `{self.anew}` begins afresh."
        else:
            self._kept.value, self._kept.locked = answer, True
            text = f"Your answer is locked: {self.words(answer)}. Now run the next cell."
        self._tell_watchers()
        return text

    def reset(self) -> None:
        """Forget the answer of this session, so that it can be given again."""
        self._kept.value, self._kept.locked, self._kept.revealed = None, False, False
        self._tell_watchers()

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
                raise ValueError(f"{value!r} is not a choice of {self.name}; the choices are {list(self.options)}")
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
            bounds = f"from {self.low:g} to {self.high:g} {self.unit}".rstrip()
            raise ValueError(f"{value!r} is outside {self.name}'s range {bounds}; the nearest is {nearest:g}")
        return value if isinstance(value, int) else float(value)

    def _in_unit(self) -> str:
        return f" in {self.unit}" if self.unit else ""

    def words(self, value: Any) -> str:
        """A value of this prediction with its unit, as text."""
        return quantity(value, self.unit)

    def watch(self, refresh: Callable[[], None]) -> None:
        """Have ``refresh`` called whenever the answer is locked, opened or revealed."""
        self._kept.watchers.append(refresh)

    def _tell_watchers(self) -> None:
        for refresh in self._kept.watchers:
            refresh()

    def __repr__(self) -> str:
        if self.locked:
            return f"Prediction: {self.question} Your answer is locked: {self.words(self.value)}."
        how = {
            "number": f"Lock a number{self._in_unit()}: commit(12).",
            "choice": f"Lock one of {list(self.options)}: commit({self.options[0]!r})." if self.options else "",
            "order": f"Lock an order of {list(self.options)} with commit([...]).",
        }[self.kind]
        return f"Prediction: {self.question} {how}"
