"""A question's histogram as data: rows with their counts, marks for what was measured and what the model says, words.

Until a question is revealed its chart holds nothing of what is right: no mark, no scale that reaches to it, no word.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from course_lib.classroom.board.bins import Bin, Bins, bins_of
from course_lib.classroom.board.prediction_stats import Answer, Guesses
from course_lib.learn.checks.lesson_index import AskedQuestion
from course_lib.learn.display.units import quantity, ratio

__all__ = ["Chart", "ChartRow", "Mark", "chart_of"]

_MOST_ORDERS = 6
_RESCALED = ("%", "bytes", "KiB", "MiB", "GiB", "kB", "MB", "GB", "s", "ms", "µs", "us", "ns", "x")
_OTHERS = "another order"


@dataclass(frozen=True)
class ChartRow:
    """One bar: what it stands for, how many predicted it, and what it is by a run or a model ("measured", "model")."""

    label: str
    count: int
    marks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Mark:
    """A line across a histogram of numbers: its place and the ends of its spread, in bars from the left edge."""

    kind: str
    text: str
    place: float
    low: float
    high: float


@dataclass(frozen=True)
class Chart:
    """The histogram of one question. ``bins`` is None for choices and orders, which have no scale."""

    name: str
    question: str
    rows: tuple[ChartRow, ...]
    sentences: tuple[str, ...]
    bins: Bins | None = None
    edges: tuple[str, ...] = ()  # of the bins, as words
    marks: tuple[Mark, ...] = ()
    is_revealed: bool = False


def chart_of(guesses: Guesses, asked: AskedQuestion, *, reveal: bool) -> Chart:
    """The chart of everybody's predictions; with ``reveal`` beside what was measured and what the model says."""
    answers = {kind: guesses.answer(kind) for kind in ("measured", "model")} if reveal else {}
    found = {kind: answer for kind, answer in answers.items() if answer is not None}
    sentences = _sentences(guesses, found, reveal)
    if guesses.kind == "number":
        return _of_numbers(guesses, asked, found, sentences, reveal)
    return Chart(guesses.name, asked.text, _of_words(guesses, asked, found), sentences, is_revealed=reveal)


def _of_numbers(
    guesses: Guesses, asked: AskedQuestion, found: dict[str, Answer], sentences: tuple[str, ...], reveal: bool
) -> Chart:
    values = {kind: answer.value for kind, answer in found.items()}
    numbers = guesses.numbers
    bins = bins_of(numbers, guesses.unit, [v for v in values.values() if isinstance(v, float)], asked.high)
    marks = tuple(_mark(kind, answer, guesses, bins) for kind, answer in found.items()) if bins.bins else ()
    whole = all(number == int(number) for number in numbers)
    held = {kind: _bin_of(float(value), bins) for kind, value in values.items()}
    rows = tuple(
        ChartRow(
            _words(one, guesses.unit, whole),
            one.count,
            tuple(k for k, place in held.items() if place == index),
        )
        for index, one in enumerate(bins.bins)
    )
    scaled = [one for one in bins.bins if one.low != one.high]
    edges = [quantity(_short(one.low), guesses.unit) for one in scaled]
    edges += [quantity(_short(scaled[-1].high), guesses.unit)] if scaled else []
    return Chart(guesses.name, asked.text, rows, sentences, bins, tuple(edges), marks, reveal)


def _mark(kind: str, answer: Answer, guesses: Guesses, bins: Bins) -> Mark:
    value = float(answer.value)
    ends = (answer.low, answer.high) if kind == "measured" and answer.is_spread else (value, value)
    most = float(len(bins.bins))
    low, high = (min(max(bins.place_of(float(end or 0.0)), 0.0), most) for end in ends)
    name = guesses.label if kind == "measured" else "cost model"
    return Mark(kind, f"{name}: {quantity(_short(value), guesses.unit)}", bins.place_of(value), low, high)


def _bin_of(value: float, bins: Bins) -> int:
    return min(max(int(bins.place_of(value) + 1e-9), 0), len(bins.bins) - 1) if bins.bins else 0


def _short(number: float) -> float:
    """Without the noise of the last digits, so that a whole number is written whole."""
    return float(f"{number:.3g}") if abs(number) < 1000 else float(f"{number:.6g}")


def _words(one: Bin, unit: str, whole: bool) -> str:
    """The numbers of a bin: "2 to 3 calls" of whole ones, "1 to 3.16 ms" of others."""
    if one.low == one.high:
        return quantity(one.low, unit)
    if whole and unit not in _RESCALED and one.low == int(one.low) and one.high == int(one.high):
        last = one.high - 1
        return quantity(one.low, unit) if last == one.low else f"{quantity(one.low)} to {quantity(last, unit)}"
    low, high = (quantity(_short(edge), unit) for edge in (one.low, one.high))
    number, _, low_unit = low.rpartition(" ")
    return f"{number if number and high.endswith(f' {low_unit}') else low} to {high}"


def _of_words(guesses: Guesses, asked: AskedQuestion, found: dict[str, Answer]) -> tuple[ChartRow, ...]:
    """Choices in the order of the question; orders by how many gave them, and the right one."""
    counts = Counter(map(str, guesses.values))
    right = [str(answer.value) for answer in found.values()]
    if guesses.kind == "order":
        names = [name for name, _ in counts.most_common(_MOST_ORDERS)]
    else:
        names = [*asked.choices, *(name for name, _ in counts.most_common() if name not in asked.choices)]
    names += [name for name in dict.fromkeys(right) if name not in names]
    rows = [
        ChartRow(name, counts.pop(name, 0), tuple(kind for kind, answer in found.items() if answer.value == name))
        for name in names
    ]
    return (*rows, *([ChartRow(_OTHERS, counts.total())] if counts else []))


def _sentences(guesses: Guesses, found: dict[str, Answer], reveal: bool) -> tuple[str, ...]:
    told = [f"{_people(len(guesses.values))} predicted."]
    if guesses.bare:
        told.append(f"{_people(guesses.bare)} answered with an older edition of the course, which kept no value.")
    middle = guesses.middle
    if middle is not None:
        told.append(f"The middle answer: {quantity(_short(middle), guesses.unit)}.")
    if not reveal:
        return tuple(told)
    measured, model = found.get("measured"), found.get("model")
    if measured is None:
        return (*told, "Nobody's run is here yet: nothing was measured.")
    told.append(_measured(guesses, measured))
    if model is not None:
        told.append(f"The cost model says {_value(model, guesses)}.")
    if middle is not None and isinstance(measured.value, float):
        off = ratio(middle, measured.value, guesses.unit)
        told.append(f"Beside the run the middle answer is {off}.")
    if guesses.seen:
        told.append(f"{guesses.right} of {guesses.seen} learners who have seen it had predicted right.")
    return tuple(told)


def _measured(guesses: Guesses, measured: Answer) -> str:
    name = guesses.label[:1].upper() + guesses.label[1:]
    runs = "1 run" if measured.count == 1 else f"{measured.count} runs"
    if measured.is_spread and measured.low is not None and measured.high is not None:
        low, high = (quantity(_short(end), guesses.unit) for end in (measured.low, measured.high))
        return f"{name}: {_value(measured, guesses)} in the middle of {runs}, from {low} to {high}."
    return f"{name}: {_value(measured, guesses)} ({runs})."


def _value(answer: Answer, guesses: Guesses) -> str:
    value = answer.value
    return quantity(_short(value), guesses.unit) if isinstance(value, float) else str(value)


def _people(count: int) -> str:
    return "1 learner" if count == 1 else f"{count} learners"
