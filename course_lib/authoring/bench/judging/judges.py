"""``course bench judges``: how many wrong answers the checks refuse, and how many right ones they accept.

Three kinds of answers are handed in: right ones of several styles; mutants of every reference solution
(``mutants.py``); and what saboteurs (``saboteurs``) make of each right one. A mutant that is accepted is a hole in the
judge, unless nobody could tell it from the solution: ``SAME_FUNCTION`` of the lesson's answers says why. So is a
saboteur that is accepted where it spoilt something, unless ``MEANS_NOTHING`` there says why that is no fault here. A
process of its own tries the answers of an exercise, since a wrong one may end or hang it.
"""

from __future__ import annotations

import json
import multiprocessing
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from course_lib.authoring.bench.judging import kept_answers
from course_lib.authoring.bench.judging.hand_in import NOTHING_TO_SPOIL, hand_in
from course_lib.authoring.bench.options import bench_parser, count
from course_lib.devices import machine
from course_lib.learn import exercises

__all__ = ["JudgesReport", "main", "try_exercise"]

_SILENCE_S = 180.0  # of the process that tries the answers, until it is taken for hung
_TARGET = 0.97
_KINDS = ("right", "mutant", "saboteur")


@dataclass
class JudgesReport:
    """What became of the answers to one exercise.

    ``same``: mutants that were accepted, and of which the room says why nobody could tell. ``harmless``: saboteurs that
    were accepted, and of which the room says why they mean nothing here; ``num_idle`` found nothing to spoil.
    """

    name: str
    num_mutants: int = 0
    statuses: Counter[str] = field(default_factory=Counter)  # of mutants
    survivors: list[str] = field(default_factory=list)
    same: dict[str, str] = field(default_factory=dict)
    num_spoilt: int = 0
    num_idle: int = 0
    harmless: dict[str, str] = field(default_factory=dict)
    unnoticed: list[str] = field(default_factory=list)  # saboteurs that were accepted
    num_right: int = 0
    refused_right: list[str] = field(default_factory=list)
    time_s: float = 0.0

    @property
    def num_wrong(self) -> int:
        """The mutants that somebody could tell from the solution."""
        return self.num_mutants - len(self.same)

    @property
    def num_refused(self) -> int:
        return self.num_wrong - len(self.survivors)

    @property
    def num_noticed(self) -> int:
        """The saboteurs that were refused."""
        return self.num_spoilt - len(self.harmless) - len(self.unnoticed)

    def line(self) -> str:
        share = self.num_refused / max(self.num_wrong, 1)
        right = f"{self.num_right - len(self.refused_right)} of {self.num_right}"
        spoilt = f"{self.num_noticed} of {self.num_spoilt - len(self.harmless)}"
        return (
            f"{self.name:14}{self.num_mutants:8}{len(self.same):8}{self.num_refused:6} of {self.num_wrong:<5}"
            f"{share:7.1%}{spoilt:>14}{len(self.harmless):10}   {right:9}{self.time_s:7.0f} s"
        )


def try_exercise(name: str, *, kinds: Sequence[str] = _KINDS, only: str = "") -> JudgesReport:
    """Hand in answers of these kinds, and tell what became of them."""
    report, began_s = JudgesReport(name), time.monotonic()
    start: int | None = 0
    while start is not None:
        start = _from(start, report, kinds, only)
    report.time_s = time.monotonic() - began_s
    return report


def _from(start: int, report: JudgesReport, kinds: Sequence[str], only: str) -> int | None:
    """Take in what a process reports from answer number ``start`` on; the next number where it ends too soon."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=hand_in, args=(report.name, start, kinds, only, there), daemon=False)
    process.start()
    there.close()
    number, kind, what = start, "", ""
    try:
        while here.poll(_SILENCE_S):
            number, kind, what, status = here.recv()
            if kind == "end":
                return None
            if status:
                _note(report, kind, what, status)
        status = "hung"
    except EOFError:
        status = "ended its process"
    finally:
        process.kill()
        process.join()
        here.close()
    _note(report, kind, what, status)
    return number + 1


def _note(report: JudgesReport, kind: str, what: str, status: str) -> None:
    if kind == "right":
        report.num_right += 1
        if status != "passed":
            report.refused_right.append(f"{what}: {status}")
    elif kind == "saboteur":
        _note_saboteur(report, what, status)
    else:
        report.num_mutants += 1
        report.statuses[status] += 1
        same = kept_answers.same_function(report.name)
        if status == "passed" and what in same:
            report.same[what] = same[what]
        elif status == "passed":
            report.survivors.append(what)


def _note_saboteur(report: JudgesReport, what: str, status: str) -> None:
    if status == NOTHING_TO_SPOIL:
        report.num_idle += 1
        return
    report.num_spoilt += 1
    reason = kept_answers.means_nothing(report.name).get(what.partition(":")[0])
    if status == "passed" and reason:
        report.harmless[what] = reason
    elif status == "passed":
        report.unnoticed.append(what)


def _names(asked: Iterable[str]) -> list[str]:
    every = [one.name for lesson in exercises.lesson_numbers() for one in exercises.exercises_of(lesson)]
    wanted = list(asked)
    if not wanted:
        return every
    found = []
    for name in wanted:
        of_lesson = [one for one in every if one.startswith(f"{name}.")]
        found += of_lesson or [exercises.exercise(name).name]
    return found


def main(arguments: list[str]) -> int:
    parser = bench_parser("judges", __doc__, rounds=1, of="not used: every answer is handed in once")
    parser.add_argument("names", nargs="*", help='exercises ("07.halves") or lessons ("07"); all by default')
    parser.add_argument("--workers", type=count, default=1, help="exercises tried at the same time (default 1)")
    parser.add_argument("--only", default="", help="only mutants and saboteurs whose line contains this text")
    parser.add_argument("--kinds", nargs="+", choices=_KINDS, default=_KINDS, help="of answers; all by default")
    parser.add_argument("--reasons", action="store_true", help="say why a saboteur that is accepted means nothing")
    options = parser.parse_args(arguments)
    try:
        names = _names(options.names)
    except ValueError as error:
        parser.error(str(error))
    print(f"{'':14}{'mutants':>8}{'same':>8}{'refused':>12}{'':9}{'saboteurs':>12}{'harmless':>10}   {'right':9}")
    with ThreadPoolExecutor(options.workers) as pool:
        reports = []
        for report in pool.map(lambda name: try_exercise(name, kinds=options.kinds, only=options.only), names):
            reports.append(report)
            print(report.line(), flush=True)
            for what in report.survivors:
                print(f"    accepted  {what}", flush=True)
            for what in report.unnoticed:
                print(f"    accepted  {what}", flush=True)
            if options.reasons:
                for what, why in report.harmless.items():
                    print(f"    harmless  {what}: {why}", flush=True)
            for what in report.refused_right:
                print(f"    a right answer refused  {what}", flush=True)
    wrong, refused = sum(one.num_wrong for one in reports), sum(one.num_refused for one in reports)
    share = refused / max(wrong, 1)
    print(f"\n{refused} of {wrong} mutants refused, {share:.1%} (at least {_TARGET:.0%} is asked for)")
    spoilt = sum(one.num_spoilt - len(one.harmless) for one in reports)
    print(f"{sum(one.num_noticed for one in reports)} of {spoilt} sabotaged answers refused")
    if options.json is not None:
        _save(options.json, reports)
    return 0


def _save(path: Path, reports: list[JudgesReport]) -> None:
    here = machine()
    record = {
        "command": "course bench judges",
        "machine": {"cores": here.cores, "cpu": here.cpu_name, "torch": here.torch_version},
        "exercises": [
            {
                "name": one.name,
                "mutants": one.num_mutants,
                "refused": one.num_refused,
                "statuses": dict(sorted(one.statuses.items())),
                "same_function": one.same,
                "accepted": one.survivors,
                "sabotaged": one.num_spoilt,
                "nothing_to_spoil": one.num_idle,
                "sabotaged_harmless": one.harmless,
                "sabotaged_accepted": one.unnoticed,
                "right_answers": one.num_right,
                "right_answers_refused": one.refused_right,
            }
            for one in reports
        ],
    }
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
