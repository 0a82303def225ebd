"""The planner beside published runs, table by table: worked out once, then printed or kept."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

from course_lib.authoring.bench.published_runs.published_scores import Errors, LayoutChoice, choices
from course_lib.plan.inputs.constants import Constants
from course_lib.plan.runs.predict_run import Prepared

__all__ = ["Judged", "ScoreTable", "as_record", "report", "tables"]

_HEAD = f"{'table':24}{'rows':>6} {'mean':>8} {'median':>8} {'largest':>8} {'bias':>8}"

_WORDS = """Errors are of predicted over measured: mean, median and largest without signs, bias is the mean with signs.
The null model knows one share of the peak for each table and nothing else. Where a table has three layouts or more of
one job, regret is how much slower than the best the planner's pick ran, and tau compares the orders (1: the same).
Too low: by how much memory was told below what was used, at worst."""


@dataclass(frozen=True)
class Judged:
    """A run, the constants that it is judged by, and the null model's share."""

    run: Prepared
    constants: Constants
    share: float


@dataclass(frozen=True)
class ScoreTable:
    """One table: errors of times, by row; of the null model; of memory; and the choices among layouts of one job."""

    name: str
    rows: tuple[tuple[str, float, float], ...]  # the row's name, seconds predicted and measured
    time: Errors
    null: Errors
    memory: Errors
    choices: tuple[LayoutChoice, ...]


def tables(judged: Sequence[Judged]) -> list[ScoreTable]:
    """One of each table, in the order in which they come."""
    found: dict[str, list[Judged]] = defaultdict(list)
    for one in judged:
        found[one.run.run.table].append(one)
    return [_table(name, ones) for name, ones in found.items()]


def _table(name: str, ones: Sequence[Judged]) -> ScoreTable:
    timed = [(one, one.run.step_s(one.constants), one.run.run.step_s) for one in ones if one.run.run.step_s]
    rows = tuple((one.run.run.name, step_s, float(real or 0)) for one, step_s, real in timed)
    null = [(one.run.one_share_s / one.share, float(real or 0)) for one, _, real in timed]
    memory = [
        (one.run.memory(one.constants).total_bytes, float(one.run.run.memory_bytes))
        for one in ones
        if one.run.run.memory_bytes
    ]
    return ScoreTable(
        name,
        rows,
        Errors.of([(step_s, real) for _, step_s, real in rows]),
        Errors.of(null),
        Errors.of(memory),
        tuple(choices([(one.run, step_s) for one, step_s, _ in timed], [_fits(one) for one, _, _ in timed])),
    )


def _fits(one: Judged) -> bool:
    return one.run.memory(one.constants).total_bytes <= one.run.profile.gpu.memory_bytes


def as_record(judged: Sequence[Judged]) -> dict[str, Any]:
    """By table what ``report`` prints, as shares: 0.05 is 5 %."""
    return {one.name: _record(one) for one in tables(judged)}


def _record(table: ScoreTable) -> dict[str, Any]:
    record: dict[str, Any] = {"time": table.time.record(), "null_model": table.null.record()}
    if table.choices:
        record["choices"] = {
            "jobs": len(table.choices),
            "regret": round(mean(one.regret for one in table.choices), 4),
            "tau": round(mean(one.tau for one in table.choices), 4),
        }
    if table.memory.values:
        record["memory"] = table.memory.record() | {"too_low": round(min(0.0, *table.memory.values), 4)}
    return record


def report(judged: Sequence[Judged], rows: bool) -> None:
    """Print the tables of time and of memory; ``rows``: and each row's error."""
    found = tables(judged)
    print(f"\nTime of a step\n{_HEAD}   {'null model: one share of peak':>35}   {'layouts of one job':>26}")
    for table in found:
        if rows:
            for name, step_s, real_s in table.rows:
                print(f"  {step_s / real_s - 1:+7.1%}  {real_s:9.4g} s  {name}")
        print(_time_line(table))
    print(f"\nMemory of the fullest GPU\n{_HEAD} {'too low':>8}")
    for table in found:
        if values := table.memory.values:
            print(f"{table.name:24}{len(values):6} {table.memory} {min(0.0, *values):8.1%}")
    print(f"\n{_WORDS}")


def _time_line(table: ScoreTable) -> str:
    order = ""
    if table.choices:
        regret, tau = mean(one.regret for one in table.choices), mean(one.tau for one in table.choices)
        order = f"   {len(table.choices):3} jobs, regret {regret:5.1%}, tau {tau:.2f}"
    return f"{table.name:24}{len(table.rows):6} {table.time}   {table.null}{order}"
