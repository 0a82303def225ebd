"""``--few``: constants fitted on few GPUs and judged on more, or never fitted; and the bands that the errors make."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Sequence
from statistics import mean
from typing import Any

from course_lib.authoring.bench.published_runs.published_report import Judged
from course_lib.authoring.bench.published_runs.published_scores import null_share
from course_lib.plan.estimate.host_doubt import HOST_DOUBT
from course_lib.plan.inputs.error_bands import ErrorBands
from course_lib.plan.inputs.profiles import load_profiles
from course_lib.plan.runs.bands import bands_of, in_their_bands
from course_lib.plan.runs.kept_apart import KeptApart, elsewhere, fitted_on_few
from course_lib.plan.runs.predict_run import Prepared

__all__ = ["CASE_WORDS", "as_judged", "bands_of_case", "bands_record", "kept_apart", "report_bands"]

CASE_WORDS = {
    "more": "fitted on few GPUs of each cluster; judged on more than four times as many as the most of them",
    "elsewhere": "typical of other clusters with the same GPU; judged on this one",
}


# How many times faster or slower than told a host may be: of a cluster that was measured, its own runs tell it.
_HOST = {"elsewhere": HOST_DOUBT, "more": 1.0}


def kept_apart(every: Sequence[Prepared]) -> dict[str, list[KeptApart]]:
    """By case the runs that are judged."""
    return {
        "more": fitted_on_few(every, lambda line: print(line, file=sys.stderr)),
        "elsewhere": elsewhere(every, load_profiles()),
    }


def as_judged(ones: Sequence[KeptApart]) -> list[Judged]:
    """For the tables; the null model gets the median share of the runs that are judged, which flatters it."""
    tables: dict[str, list[KeptApart]] = defaultdict(list)
    for one in ones:
        tables[one.run.run.table].append(one)
    judged = []
    for rows in tables.values():
        timed = [row.run for row in rows if row.run.run.step_s]
        share = null_share(timed) if timed else 1.0
        judged += [Judged(row.run, row.constants, share) for row in rows]
    return judged


def bands_of_case(case: str, ones: Sequence[KeptApart]) -> ErrorBands:
    """The bands of one of ``CASE_WORDS``, by the runs judged in it."""
    return bands_of(ones, _HOST[case])


def bands_record(case: str, ones: Sequence[KeptApart]) -> dict[str, Any]:
    """The bands, and how many steps and bytes lie in them by table, where other clusters alone make the band."""
    held = {"in_band": in_their_bands(ones, host=_HOST[case]), "memory_in_band": in_their_bands(ones, memory=True)}
    return {
        **bands_of_case(case, ones).record(),
        **{
            name: {table: {"runs": among, "held": count} for table, (count, among) in tables.items()}
            for name, tables in held.items()
        },
    }


def report_bands(case: str, ones: Sequence[KeptApart]) -> None:
    """Print the bands, and how many of the judged runs lie in theirs."""
    bands = bands_of_case(case, ones)
    print(f"\n== bands of 80 %, constants {CASE_WORDS[case]}")
    print(f"{'measured over predicted':30}{'from':>6} {'to':>6} {'runs':>6} {'clusters':>9}")
    for kind, band in [*bands.time.items(), ("memory", bands.memory)]:
        print(f"{kind:30}{band.low:6.2f} {band.high:6.2f} {band.runs:6} {band.clusters:9}")
    print(f"two layouts of one job are a tie where their predictions lie no more than {bands.tie - 1:.0%} apart")
    if bands.host > 1:
        print(f"a band reaches as far as a host {bands.host:g} times faster or slower than told would bring the step")
    print("in the bands that all other clusters make, without the run's own:")
    _report_held("steps", in_their_bands(ones, host=_HOST[case]))
    _report_held("memory", in_their_bands(ones, memory=True))


def _report_held(what: str, held: dict[str, tuple[int, int]]) -> None:
    if not held:
        return
    count, among = (sum(numbers) for numbers in zip(*held.values(), strict=True))
    shares = mean(one / of for one, of in held.values())
    print(f"  {what}: {count} of {among}, {count / among:.0%}; of a table {shares:.0%} on average")
    print("    " + ", ".join(f"{table} {one} of {of}" for table, (one, of) in held.items()))
