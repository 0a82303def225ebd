"""07.gpipe: all forwards, then all backwards, as a table whose columns are moments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from course_lib.base.text import counted
from course_lib.learn.catalogue.exercise import Case, Evidence, Exercise, Mistake
from course_lib.learn.exercises.lesson_07.ready_made import GPIPES
from course_lib.learn.exercises.lesson_07.told import ExplainedEvidence
from course_lib.learn.judging.compare import Difference, short
from course_lib.learn.judging.isolated_judge import by_cases_apart
from course_lib.schedules import Action, Schedule, from_text, gpipe, validate

__all__ = ["GPIPE"]

_MIXED, _TOO_LONG = "mixed", "too-long"  # kinds of differences
_SIZES = ((2, 3), (4, 8), (4, 2), (3, 3), (1, 4), (2, 12), (5, 7), (5, 1))  # stages, micro-batches
Table = list[str]


def _right(num_stages: int, num_micro_batches: int) -> dict[str, int]:
    """What the judge needs to know; any table of that kind and length is right."""
    columns = len(gpipe(num_stages, num_micro_batches).aligned().actions[0])
    return {"stages": num_stages, "micro-batches": num_micro_batches, "columns": columns}


def _compare(expected: dict[str, int], got: Any) -> str:
    """Why it is no GPipe table, in words; tables that differ in idle cells at the end of a row are the same."""
    if not isinstance(expected, dict):  # two answers of learners, side by side
        return "" if _rows(expected) == _rows(got) else "the tables differ"
    p, m = expected["stages"], expected["micro-batches"]
    got = got.tolist() if hasattr(got, "tolist") else got
    if not isinstance(got, list | tuple) or not all(isinstance(row, str) for row in got):
        return f"expected a list of {counted(p, 'text')}, a row for each stage, got {short(got)}"
    if len(got) != p:
        return f"expected {counted(p, 'row')}, one for each stage, got {len(got)}"
    if any("," in row for row in got):
        return f"cells are separated by blanks, and a row has commas: {short(got[0])}"
    try:
        text = "\n".join(row.strip() or "." for row in got)
        schedule = from_text(text, num_micro_batches=m, rank_of_stage=range(p))
    except ValueError as error:
        return str(error).rstrip(".")
    problems = validate(schedule)
    return str(problems[0]) if problems else _out_of_time(schedule) or _shape(schedule, expected["columns"])


def _out_of_time(schedule: Schedule) -> str:
    """The first cell that stands in a column in which what it needs is not there yet."""
    column_of = {action: column for _, column, action in schedule.cells}
    for _, column, (kind, stage, i) in sorted(schedule.cells, key=lambda cell: cell[1]):
        before = Action(kind, stage - 1 if kind == "F" else stage + 1, i)
        if before in column_of and column_of[before] >= column:
            return (
                f"stage {stage} runs {kind}{i} in column {column}, and stage {before.stage} has made what it needs "
                f"only after column {column_of[before]}"
            )
    return ""


def _shape(schedule: Schedule, num_columns: int) -> str:
    for rank, row in enumerate(schedule.rows):
        kinds = "".join(action.kind for action in row)
        if set(kinds) - {"F", "B"}:
            return f"stage {rank} runs backwards in halves (I and W); in this table a backward is one cell, such as B0"
        if "BF" in kinds:
            words = f"stage {rank} runs a forward after a backward; in GPipe all forwards come first"
            return Difference(words, _MIXED)
    used = max(column for _, column, _ in schedule.cells) + 1
    if used > num_columns:
        return Difference(f"the table has {used} columns; {num_columns} are enough", _TOO_LONG)
    return ""


def _rows(table: Any) -> Any:
    texts = isinstance(table, list | tuple) and all(isinstance(row, str) for row in table)
    return [row.replace(".", " . ").rstrip(" .").split() for row in table] if texts else table


# -- usual wrong answers ----------------------------------------------------------------------------------------


def _table(place: Callable[[str, int, int, int, int], int], *, kinds: str = "FB") -> Callable[..., Table]:
    """A table in which ``place(kind, stage, i, p, m)`` says the column."""

    def answer(num_stages: int, num_micro_batches: int) -> Table:
        p, m = num_stages, num_micro_batches
        rows = []
        for stage in range(p):
            at = {place(kind, stage, i, p, m): f"{kind}{i}" for kind in kinds for i in range(m)}
            rows.append(" ".join(at.get(column, ".") for column in range(max(at) + 1)))
        return rows

    return answer


def _naive(kind: str, stage: int, i: int, p: int, m: int) -> int:
    return 2 * p * i + (stage if kind == "F" else 2 * p - 1 - stage)


def _no_stairs(kind: str, stage: int, i: int, p: int, m: int) -> int:
    return i if kind == "F" else m + i


def _from_the_front(kind: str, stage: int, i: int, p: int, m: int) -> int:
    return stage + i if kind == "F" else m + p - 1 + stage + i


def _all_at_once(kind: str, stage: int, i: int, p: int, m: int) -> int:
    return stage + i if kind == "F" else m + p - 1 + i


def _in_place(kind: str, stage: int, i: int, p: int, m: int) -> int:
    return stage + i if kind == "F" else m + p - 1 + (p - 1 - stage) + i


def _one_by_one(num_stages: int, num_micro_batches: int) -> Table:
    """A row for each micro-batch."""
    return [" ".join(["."] * i + [f"F{i}"] * num_stages + [f"B{i}"] * num_stages) for i in range(num_micro_batches)]


def _from_one(num_stages: int, num_micro_batches: int) -> Table:
    rows = _table(_in_place)(num_stages, num_micro_batches)
    return [" ".join(w if w == "." else f"{w[0]}{int(w[1:]) + 1}" for w in row.split()) for row in rows]


def _differs_by(kind: str) -> Callable[[Evidence], bool]:
    """Whatever differs, differs in this."""
    return lambda evidence: all(outcome.kind_of_difference == kind for outcome in evidence.wrong)


GPIPE = Exercise(
    name="07.gpipe",
    may_yield=True,
    title="GPipe as a table",
    judge=ExplainedEvidence(
        by_cases_apart(
            [Case(f"{counted(p, 'stage')} and {counted(m, 'micro-batch')}", (p, m), _right) for p, m in _SIZES],
            compare=_compare,
        ),
        _compare,
        GPIPES,
    ),
    mistakes=(
        Mistake(
            "one-after-the-other",
            "One micro-batch goes all the way down and back before the next one sets out: that is the staircase again, "
            "once for each micro-batch. Stage 0 can run F1 while stage 1 runs F0.",
            _table(_naive),
        ),
        Mistake(
            "no-stairs",
            "All rows begin in the first column. Stage 1 cannot run F0 in the column in which stage 0 is still making "
            "it. Each stage begins one column after the stage before it.",
            _table(_no_stairs),
        ),
        Mistake(
            "backward-from-the-front",
            "Your backwards go from the first stage to the last. The loss is at the *last* stage: it begins, and each "
            "stage before it follows one column later.",
            _table(_from_the_front),
        ),
        Mistake(
            "backward-at-once",
            "All stages run B0 in the same column. A stage needs the gradient that the stage behind it makes, so it "
            "comes one column later than that one.",
            _table(_all_at_once),
        ),
        Mistake(
            "waits-for-nothing",
            "Everything is in order, and there are idle columns in which nobody waits for anything. The last "
            "stage has run its last forward: what keeps it from beginning its first backward in the next column? "
            "Each stage before it follows one column later.",
            recognise=_differs_by(_TOO_LONG),
        ),
        Mistake(
            "rows-are-micro-batches",
            "Your rows are micro-batches. A row is what one *stage* does, from its first forward to its last backward.",
            _one_by_one,
        ),
        Mistake(
            "counts-from-one",
            "Your micro-batches are numbered from 1. They go from 0 to m - 1, as everything in this course.",
            _from_one,
        ),
        Mistake(
            "no-backward",
            "There are forwards alone. Every micro-batch comes back through every stage: B0, B1 and so on.",
            _table(_in_place, kinds="F"),
        ),
        Mistake(
            "another-schedule",
            "It can run, and it is another schedule: some stage runs a forward after a backward. In GPipe all forwards "
            "come first. (You will write such another one in a moment.)",
            recognise=_differs_by(_MIXED),
        ),
    ),
    hints=(
        "In which column does stage 0 run F0, F1, F2? And stage 1, which can begin each of them one column later?",
        "Forward: stage s runs Fi in column s + i. The last forward of all is in column m + p - 2. From the next "
        "column on it goes back: the last stage first, and each stage before it one column later.",
        "Stage s begins with s dots, then F0 to F(m-1). Between its forwards and its backwards it waits "
        "2 * (p - 1 - s) columns, then come B0 to B(m-1).",
    ),
    forbidden=(
        "course_lib.schedules.gpipe",
        "course_lib.schedules.get_schedule",
        "course_lib.schedules.looped_bfs",
    ),
    passed="Every stage runs each action once, no action runs before what it needs, and the table has no more "
    "columns than necessary.",
)
