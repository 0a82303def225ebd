"""What is kept of an attempt: a plain record that a file can hold, and the same read back, whoever wrote the file."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["FILE_NAME", "ForeignResult", "ResultRecord", "ResultRow", "read_record", "shown_text"]

FILE_NAME = "result.json"
KIND, FORMAT = "one-model-many-gpus capstone", 1
_MOST_BYTES = 1_000_000  # of a file; ours have a few thousand
_MOST_LETTERS = {"name": 60, "defence": 4000}  # what a learner may write
_TEXTS = ("name", "mesh", "why", "whose", "defence", "written", "machine", "job")
_CODE_COLUMNS = 4
_NUMBERS = ("points", "step_s", "planner_s", "best_s", "budget_s", "peak_bytes", "memory_bytes")


class ForeignResult(ValueError):
    """A file that holds no record of an attempt; the message says what is wrong with it."""


@dataclass(frozen=True)
class ResultRow:
    """One thing that was looked at, as texts with their units; a dash where there is nothing to say."""

    what: str
    yours: str
    limit: str = "–"
    planner: str = "–"
    best: str = "–"
    points: float = 0.0
    of: float = 0.0
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class ResultRecord:
    """An attempt on a job. ``why`` is empty where the run kept all limits; numbers that nobody measured are None.

    ``parts`` are the bytes of the fullest rank at its fullest moment, by the ledger's names. ``cheats`` are names.
    """

    level: int
    seed: int
    points: float
    rows: tuple[ResultRow, ...]
    name: str = ""
    mesh: str = ""
    why: str = ""
    defence: str = ""
    job: str = ""
    cheats: tuple[str, ...] = ()
    parts: Mapping[str, float] = field(default_factory=dict)
    whose: str = ""  # how much of what ran was the learner's, in a sentence
    code: tuple[tuple[str, ...], ...] = ()  # a row for each function: whose, name, file, lines that ran
    step_s: float | None = None
    planner_s: float | None = None
    best_s: float | None = None
    budget_s: float | None = None
    peak_bytes: float | None = None
    memory_bytes: float | None = None
    written: str = ""
    machine: str = ""

    def text(self) -> str:
        """As a file holds it."""
        return json.dumps({"kind": KIND, "format": FORMAT, **asdict(self)}, indent=1, ensure_ascii=False)

    @property
    def regret(self) -> float | None:
        """By how much the step is longer than the best known one, as a share; None without a step or a best."""
        if not self.step_s or not self.best_s:
            return None
        return self.step_s / self.best_s - 1


def read_record(path: Path) -> ResultRecord:
    """The record in a file. ``ForeignResult`` for a file that holds none, with the reason."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise ForeignResult(f"it has {path.stat().st_size:,} bytes, and a result has only a few thousand")
        found = json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_number)
    except OSError as error:
        raise ForeignResult(f"it cannot be read: {error.strerror or error}") from None
    except RecursionError:
        raise ForeignResult("it is nested too deep for a result") from None
    except ValueError as error:  # of JSON, of letters, and our own
        raise error if isinstance(error, ForeignResult) else ForeignResult(f"it is no JSON: {error}") from None
    if not isinstance(found, dict) or found.get("kind") != KIND:
        raise ForeignResult("it is JSON, but not a result of a capstone")
    if found.get("format") != FORMAT:
        raise ForeignResult(f"it is of format {found.get('format')!r}, and this course reads format {FORMAT}")
    return _record(found)


def _record(found: Mapping[str, Any]) -> ResultRecord:
    level, seed = (_whole(found, name) for name in ("level", "seed"))
    numbers: dict[str, Any] = {name: _number(found, name) for name in _NUMBERS}
    points = numbers.pop("points")
    if points is None or not 0 <= points <= 100:
        raise ForeignResult(f"its points are {found.get('points')!r}, and points are from 0 to 100")
    texts: dict[str, Any] = {name: _text(found, name) for name in _TEXTS}
    rows = found.get("rows")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ForeignResult("its rows are not a list of tables")
    record = ResultRecord(
        level=level,
        seed=seed,
        points=points,
        rows=tuple(_row(row) for row in rows),
        cheats=tuple(str(one)[:80] for one in _listed(found, "cheats")),
        parts=_parts(found),
        code=_code(found),
        **texts,
        **numbers,
    )
    total = sum(row.points for row in record.rows)
    if abs(total - points) > 0.6 and not record.why:
        raise ForeignResult(f"its points do not add up: {points:g} in all, and {total:g} in its rows")
    return record


def _row(found: Mapping[str, Any]) -> ResultRow:
    texts = {name: _text(found, name) for name in ("what", "yours", "limit", "planner", "best", "why")}
    return ResultRow(**texts, points=_number(found, "points") or 0.0, of=_number(found, "of") or 0.0)


def _parts(found: Mapping[str, Any]) -> dict[str, float]:
    parts = found.get("parts", {})
    if not isinstance(parts, dict):
        raise ForeignResult("its parts of memory are not a table")
    return {str(name)[:40]: _number(parts, name) or 0.0 for name in parts}


def _code(found: Mapping[str, Any]) -> tuple[tuple[str, ...], ...]:
    rows = _listed(found, "code")
    if not all(isinstance(row, list) and len(row) == _CODE_COLUMNS for row in rows):
        raise ForeignResult("its rows of code are not a table")
    return tuple(tuple(shown_text(str(cell), 400) for cell in row) for row in rows)


def _listed(found: Mapping[str, Any], name: str) -> list[Any]:
    value = found.get(name, [])
    if not isinstance(value, list):
        raise ForeignResult(f"its {name} are not a list")
    return value


def _whole(found: Mapping[str, Any], name: str) -> int:
    value = found.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ForeignResult(f"its {name} is {value!r}, and a {name} is a whole number")
    return value


def _number(found: Mapping[str, Any], name: str) -> float | None:
    value = found.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise ForeignResult(f"its {name} is {value!r}, which is not a number of at least 0")
    return value


def _text(found: Mapping[str, Any], name: str) -> str:
    value = found.get(name, "")
    if not isinstance(value, str):
        raise ForeignResult(f"its {name} is {value!r}, which is not a text")
    return shown_text(value, _MOST_LETTERS.get(name, 4000))


def shown_text(text: str, most: int) -> str:
    """A text of at most so many letters, without what would move a cursor or hide the rest of a line."""
    kept = "".join(letter for letter in text if letter.isprintable() or letter == "\n")
    return kept if len(kept) <= most else kept[: most - 1] + "…"


def _no_number(word: str) -> float:
    raise ForeignResult(f"it holds {word}, which is not a number")
