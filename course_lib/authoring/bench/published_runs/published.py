"""``course bench published FILE``: the planner beside training runs that others published.

FILE has one run a row (its columns stand in ``course_lib/plan/runs/published.py``). By table: how many rows, and the
mean, median and largest absolute error of the step's time and its bias; the same of memory; and beside it the null
model, which knows one share of the peak for each table and nothing else. Where a table holds three layouts or more of
one job, *regret* is how much slower than the best of them the planner's pick ran (the fastest of those that it says
fit), and *tau* compares the two orders (1: the same).

Constants are those of the profiles. ``--half`` fits them on every second row of each table and judges them on the other
half, both ways round; ``--few`` fits them on few GPUs of each cluster and judges them on more, and judges the constants
that a cluster gets which nobody has measured; it says how many runs lie in their 80 % band, which the runs of all other
clusters make, and what the worst tables lack. Nothing of that is kept. ``--fit`` fits constants on all rows and keeps
them in the data file, and the bands of ``--few`` in another. ``--json`` keeps the tables.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from course_lib.authoring.bench.published_runs.few_and_more import (
    CASE_WORDS,
    as_judged,
    bands_of_case,
    bands_record,
    kept_apart,
    report_bands,
)
from course_lib.authoring.bench.published_runs.missing_facts import missing_facts, report_missing
from course_lib.authoring.bench.published_runs.published_report import Judged, as_record, report
from course_lib.authoring.bench.published_runs.published_scores import null_share
from course_lib.plan.inputs.constants import Constants
from course_lib.plan.inputs.error_bands import BANDS_FILE, save_bands
from course_lib.plan.inputs.profiles import (
    PROFILES_FILE,
    load_profiles,
    profile_of,
    save_constants,
    typical_constants,
    with_constants,
)
from course_lib.plan.runs.fit import by_cluster, fit_and_told, thinned
from course_lib.plan.runs.predict_run import Prepared, prepared
from course_lib.plan.runs.published import PublishedRun, read_runs

__all__ = ["main"]

Key = tuple[str, str]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="course bench published",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", type=Path, help="the runs, a CSV file")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--half", action="store_true", help="fit on every second row, judge the others; both ways")
    how.add_argument("--few", action="store_true", help="fit on few GPUs, judge on more; with bands of the errors")
    how.add_argument("--fit", action="store_true", help="fit on all rows and keep the constants")
    parser.add_argument("--rows", action="store_true", help="also print each row")
    parser.add_argument("--json", metavar="FILE", type=Path, help="also keep the tables in this file")
    options = parser.parse_args(arguments)
    try:
        runs, refused = read_runs(options.file)
        every, unknown = _prepared(runs)
    except ValueError as error:
        print(f"course bench published: {error}", file=sys.stderr)
        return 2
    _tell_refused({**refused, **unknown}, len(runs) + len(refused))
    _tell_typical(every)
    if not every:
        print("course bench published: there is no row to predict.", file=sys.stderr)
        return 1
    ways, more = _judged(options, runs, every)
    for way, judged in ways.items():
        print(f"\n== constants {way}")
        report(judged, options.rows)
    return 0 if options.json is None else _keep(options, ways, len(runs) + len(refused), more)


def _judged(
    options: argparse.Namespace, runs: Sequence[PublishedRun], every: Sequence[Prepared]
) -> tuple[dict[str, list[Judged]], dict[str, object]]:
    """By way of fitting the runs that are judged, and what else is kept of them."""
    if options.half:
        ways = {
            f"fitted on every second row, from the {which} of each table; judged on the others": _judged_by_half(
                every, half
            )
            for half, which in enumerate(("first", "second"))
        }
        return ways, {}
    if options.few:
        apart = kept_apart(every)
        for case, ones in apart.items():
            report_bands(case, ones)
        report_missing(apart["elsewhere"])
        missing = {table: one.record() for table, one in missing_facts(apart["elsewhere"]).items()}
        bands = {case: bands_record(case, ones) for case, ones in apart.items()}
        return {CASE_WORDS[case]: as_judged(ones) for case, ones in apart.items()}, {"bands": bands, "missing": missing}
    if options.fit:
        every = _fit_and_keep(every, options.file)
    return {"of the profiles": _judged_by_profiles(every)}, {}


def _keep(options: argparse.Namespace, ways: dict[str, list[Judged]], rows: int, more: dict[str, object]) -> int:
    """Write the tables with the command that made them; 2 where the file cannot be written."""
    how = " --half" if options.half else " --few" if options.few else ""
    record = {
        "command": f"course bench published {options.file.name}{how}",
        "date": datetime.now(UTC).date().isoformat(),
        "rows": rows,
        "tables": {f"constants {way}": as_record(judged) for way, judged in ways.items()},
        **more,
    }
    try:
        options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        print(
            f"course bench published: --json {options.json} cannot be written: {error.strerror}.",
            file=sys.stderr,
        )
        return 2
    return 0


def _prepared(runs: Sequence) -> tuple[list[Prepared], dict[str, str]]:
    """The runs with their profiles, and those that no profile is for."""
    profiles, found, unknown = load_profiles(), [], {}
    for run in runs:
        try:
            found.append(prepared(run, profile_of(run.cluster, run.gpu, profiles)))
        except ValueError as error:
            unknown[f"line {run.line} ({run.table})"] = str(error)
    return found, unknown


def _tell_refused(refused: dict[str, str], count: int) -> None:
    print(f"{count} rows, {len(refused)} of them cannot be predicted")
    for name, why in refused.items():
        print(f"  {name}: {why}")


def _tell_typical(every: Sequence[Prepared]) -> None:
    """Clusters that have no constants of their own, and how many rows that is."""
    profiles = load_profiles()
    found = Counter(
        f"{one.run.cluster} ({one.run.gpu})" for one in every if (one.run.cluster, one.run.gpu) not in profiles
    )
    if found:
        print(
            f"{found.total()} of them are of clusters without constants of their own, and are predicted with what is "
            f"typical of their GPU: {', '.join(f'{name}, {count}' for name, count in found.items())}"
        )


def _by_table(runs: Sequence[Prepared]) -> dict[str, list[Prepared]]:
    tables: dict[str, list[Prepared]] = defaultdict(list)
    for run in runs:
        tables[run.run.table].append(run)
    return tables


def _fitted(
    runs: Sequence[Prepared], told: dict[Key, dict[str, float]] | None = None
) -> dict[Key, tuple[Constants, int]]:
    """Constants by cluster and GPU, and on how many rows; ``told`` gets how much these tell of each constant."""
    found, told = {}, {} if told is None else told
    for key, rows in by_cluster(runs).items():
        rows = thinned([row for row in rows if row.run.step_s or row.run.memory_bytes])
        if any(row.run.step_s for row in rows):
            constants, told[key] = fit_and_told(rows)
            found[key] = (constants, len(rows))
            print(f"  fitted {' '.join(key)} on {len(rows)} rows", file=sys.stderr)
    return found


def _judged_by_half(runs: Sequence[Prepared], fitted_half: int) -> list[Judged]:
    tables = _by_table(runs)
    halves = [[run for rows in tables.values() for run in rows[half::2]] for half in (fitted_half, 1 - fitted_half)]
    fitted = _fitted(halves[0])
    judged = []
    for table, rows in tables.items():
        told = [run for run in rows[fitted_half::2] if run.run.step_s] or [run for run in rows if run.run.step_s]
        share = null_share(told) if told else 1.0
        for run in rows[1 - fitted_half :: 2]:
            judged.append(Judged(run, _constants_of(run, fitted), share))
        if not rows[1 - fitted_half :: 2]:
            print(f"  {table}: its one row was fitted, and is not judged")
    return judged


def _constants_of(run: Prepared, fitted: dict[Key, tuple[Constants, int]]) -> Constants:
    """Those of the run's cluster; where none of its rows was fitted, the typical ones of others with its GPU."""
    if (run.run.cluster, run.run.gpu) in fitted:
        return fitted[run.run.cluster, run.run.gpu][0]
    known = with_constants(load_profiles(), fitted)
    others = [known[key] for key in fitted if key[1] == run.run.gpu and key in known]
    return typical_constants(others, [known[key] for key in fitted if key in known])


def _judged_by_profiles(runs: Sequence[Prepared]) -> list[Judged]:
    judged = []
    for rows in _by_table(runs).values():
        timed = [run for run in rows if run.run.step_s]
        share = null_share(timed) if timed else 1.0
        judged += [Judged(run, run.profile.constants, share) for run in rows]
    return judged


def _fit_and_keep(runs: Sequence[Prepared], file: Path) -> list[Prepared]:
    """Keep constants and bands; the runs with the profiles that are kept now."""
    told: dict[Key, dict[str, float]] = {}
    fitted = _fitted(runs, told)
    known = load_profiles()
    origin = {"command": f"course bench published {file.name} --fit", "date": datetime.now(UTC).date().isoformat()}
    save_constants(
        {key: value for key, value in fitted.items() if key in known},
        {
            **origin,
            "rows": json.dumps({" ".join(key): count for key, (_, count) in fitted.items()}),
        },
        told=told,
    )
    print(f"kept in {PROFILES_FILE.name}", file=sys.stderr)
    anew, _ = _prepared([run.run for run in runs])
    try:
        bands = {case: bands_of_case(case, ones) for case, ones in kept_apart(anew).items()}
    except ValueError as error:
        print(f"{BANDS_FILE.name} stays as it was: {error}", file=sys.stderr)
        return anew
    save_bands(bands, origin)
    print(f"kept in {BANDS_FILE.name}", file=sys.stderr)
    return anew
