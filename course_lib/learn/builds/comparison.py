"""Several implementations of one thing, put through the same metered run: the learner's beside the course's."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from course_lib.base.text import columns
from course_lib.cluster import Cluster, Rank, RankFailed, RankTimeout
from course_lib.forms.show import Shown, panel, paragraph, show, table
from course_lib.learn.builds.catalogue import build_named
from course_lib.learn.judging.compare import difference
from course_lib.learn.records.store import record
from course_lib.meter import MemoryLedger, bytes_text, metered
from course_lib.meter.units import time_text

__all__ = ["ROWS", "SideBySide", "compared", "side_by_side"]

ROWS = {
    "equal": "equal to one process",
    "bytes": "sent by the busiest rank",
    "messages": "messages of the busiest rank",
    "memory": "memory beside what was given",
    "hidden": "communication hidden",
    "copied": "copied to devices",
    "at_once": "replicas at the same time",
    "left": "of replicas left at the end",
    "time": "time of the slowest rank",
}
Job = Callable[..., Any]  # (me, implementation, *what prepare gave)


@dataclass(frozen=True, repr=False)
class SideBySide(Shown):
    """A column for each implementation, by its name, and what stopped those that failed."""

    columns: Mapping[str, Mapping[str, str]]  # by column, then by row: those of ROWS first
    failures: Mapping[str, str]
    title: str

    @property
    def _head(self) -> list[str]:
        return ["", *self.columns]

    @property
    def _rows(self) -> list[list[str]]:
        met = dict.fromkeys(kind for column in self.columns.values() for kind in column)
        kinds = [*(kind for kind in ROWS if kind in met), *(kind for kind in met if kind not in ROWS)]
        return [[ROWS.get(kind, kind), *(column.get(kind, "–") for column in self.columns.values())] for kind in kinds]

    @property
    def _notes(self) -> list[str]:
        return [f"{name}: {why}" for name, why in self.failures.items()]

    def __repr__(self) -> str:
        return "\n".join([self.title, *columns([self._head, *self._rows]), *self._notes])

    def _html(self) -> str:
        return panel("info", self.title, table(self._head, self._rows) + "".join(map(paragraph, self._notes)))


def side_by_side(
    cluster: Cluster,
    job: Job,
    implementations: Mapping[str, Any],
    *,
    expected: Any,
    prepare: Callable[[Rank], Any] | None = None,
    within: float = 0.0,
    hidden: bool = False,
    build: str = "",
    num_pairs: int = 0,
    title: str = "",
) -> SideBySide:
    """Run ``job(me, implementation, *given)`` on the ranks of ``cluster`` for each implementation; a column each.

    Args:
        job: Runs on each rank, and returns what is compared: a tensor, or a list or dict of tensors.
        implementations: By the name of their columns, such as "yours".
        expected: What one process gives; a function of the rank where ranks are to have different things.
        prepare: Makes on each rank what the job is given, a tuple: models and tensors, whose memory is not counted.
        within: How far a number may be off, relative to the largest.
        hidden: Whether to say how much of the communication was hidden. It is a time, and differs from run to run.
        num_pairs: How often to time all implementations in turn, each after a first run; the median counts. 0: never.
        title: Above the table; by default on how many ranks it ran.
        build: The name of a build, such as "04.ddp": ``build_progress`` shows this table again.

    An implementation that fails has dashes in its column, and a line below the table.
    """
    if not implementations:
        raise ValueError("side_by_side: no implementation given; give at least one, by the name of its column")
    times = _Times(cluster, job, implementations, prepare, num_pairs)
    return compared(
        title or f"The same run on {cluster.world_size} ranks",
        implementations,
        lambda one: _column(cluster, job, one, expected, prepare, within, hidden) | times.cell(one),
        failing=(RankFailed, RankTimeout),
        tell=str,
        build=build,
    )


class _Times:
    """Medians of runs in turn, one of each implementation after the other; measured when the first is asked for.

    One that fails is left out, so that the others still have a time.
    """

    def __init__(self, cluster: Cluster, job: Job, implementations: Mapping[str, Any], prepare: Any, num: int) -> None:
        self._cluster, self._job, self._prepare, self._num = cluster, job, prepare, num
        self._left = list(implementations.values())
        self._times_s: dict[int, list[float]] | None = None

    def cell(self, implementation: Any) -> dict[str, str]:
        if not self._num:
            return {}
        if self._times_s is None:
            self._times_s = {id(one): [] for one in self._left}
            for _ in range(1 + self._num):
                for one in list(self._left):
                    self._measure(one)
        times_s = self._times_s[id(implementation)][1:]  # the first is a warm-up
        return {"time": f"{time_text(statistics.median(times_s))} (median of {len(times_s)})"} if times_s else {}

    def _measure(self, one: Any) -> None:
        assert self._times_s is not None
        try:
            found = self._cluster.run(_timed_run, self._job, one, self._prepare)
        except (RankFailed, RankTimeout):
            self._left.remove(one)
            self._times_s[id(one)] = []
            return
        self._times_s[id(one)].append(max(found.results.values()))


def compared(
    title: str,
    implementations: Mapping[str, Any],
    column_of: Callable[[Any], dict[str, str]],
    *,
    failing: type[Exception] | tuple[type[Exception], ...],
    tell: Callable[[Exception], str],
    build: str,
) -> SideBySide:
    """Show a column of each implementation, keep the table for ``build_progress``, and return it.

    One that ends with an error of ``failing`` has an empty column, and the first line of ``tell(error)`` below.
    """
    kept_as = build_named(build).name if build else ""
    found: dict[str, dict[str, str]] = {}
    failures: dict[str, str] = {}
    for name, implementation in implementations.items():
        try:
            found[name] = column_of(implementation)
        except failing as error:
            found[name], failures[name] = {}, tell(error).partition("\n")[0]
    table_of_all = SideBySide(found, failures, title)
    if kept_as:
        record("comparison", kept_as, title=title, columns=found)
    show(table_of_all)
    return table_of_all


def _column(
    cluster: Cluster,
    job: Job,
    implementation: Any,
    expected: Any,
    prepare: Callable[[Rank], Any] | None,
    within: float,
    hidden: bool,
) -> dict[str, str]:
    run = metered(cluster, _plain_run, job, implementation, prepare)
    peaks = cluster.run(_run_with_ledger, job, implementation, prepare)
    sent = run.communication
    ranks = range(cluster.world_size)
    found = {
        "equal": _equal(run.results, expected, within),
        "bytes": bytes_text(max(map(sent.sent_bytes, ranks))),
        "messages": str(max(map(sent.num_messages, ranks))),
        "memory": bytes_text(max(peaks.results.values())),
    }
    if hidden:
        covered = sum(map(sent.hidden_s, ranks))
        whole = covered + sum(map(sent.exposed_s, ranks))
        found["hidden"] = f"{covered / whole:.0%}" if whole else "–"
    return found


def _plain_run(me: Rank, job: Job, implementation: Any, prepare: Callable[[Rank], Any] | None) -> Any:
    return job(me, implementation, *_given(me, prepare))


def _run_with_ledger(me: Rank, job: Job, implementation: Any, prepare: Callable[[Rank], Any] | None) -> int:
    """The most bytes that storages made by the job held at once, beside what it was given."""
    given = _given(me, prepare)
    with MemoryLedger() as ledger:
        for one in given:
            _own(ledger, one)
        before = ledger.now().total_bytes
        job(me, implementation, *given)
    return max(0, ledger.peak().total_bytes - before)


def _timed_run(me: Rank, job: Job, implementation: Any, prepare: Callable[[Rank], Any] | None) -> float:
    """Seconds of the job, begun together, without what prepares it."""
    given = _given(me, prepare)
    dist.barrier()
    began_s = time.perf_counter()
    job(me, implementation, *given)
    if me.device.type == "cuda":
        torch.cuda.synchronize(me.device)
    return time.perf_counter() - began_s


def _given(me: Rank, prepare: Callable[[Rank], Any] | None) -> tuple[Any, ...]:
    given = () if prepare is None else prepare(me)
    return given if isinstance(given, tuple) else (given,)


def _own(ledger: MemoryLedger, one: Any) -> None:
    if isinstance(one, nn.Module):
        ledger.own("parameter", [*one.parameters(), *one.buffers()])
    else:
        ledger.own("input", one)


def _equal(results: Mapping[int, Any], expected: Any, within: float) -> str:
    for rank, got in sorted(results.items()):
        want = expected(rank) if callable(expected) else expected
        if not _alike(want, got, within):
            return f"no: rank {rank}"
    return "yes"


def _alike(want: Any, got: Any, within: float) -> bool:
    if isinstance(want, Mapping):
        same_names = isinstance(got, Mapping) and want.keys() == got.keys()
        return same_names and all(_alike(want[name], got[name], within) for name in want)
    if isinstance(want, list | tuple):
        same_length = isinstance(got, list | tuple) and len(want) == len(got)
        return same_length and all(_alike(a, b, within) for a, b in zip(want, got, strict=True))
    if isinstance(want, torch.Tensor) and isinstance(got, torch.Tensor) and within:
        if (want.shape, want.dtype) != (got.shape, got.dtype):
            return False
        largest = want.abs().max().item() if want.numel() else 0.0
        return torch.allclose(want, got, rtol=0.0, atol=within * largest)
    return not difference(want, got)
