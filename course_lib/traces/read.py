"""Traces by the names of their files: of ``torch.profiler``, plain or compressed, and tables."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from course_lib.base.foreign_text import one_line
from course_lib.base.paths import course_file
from course_lib.traces.json_stream import TraceFileError, events_of
from course_lib.traces.profiler_events import ranks_in
from course_lib.traces.rank_trace import RankTrace
from course_lib.traces.table import TableRow, is_table, rank_of_table, rows_of_table

__all__ = ["CARRIED", "read_traces", "table_rows"]

CARRIED = ("ddp_resnet_2xa100", "recommender_rank3_of_8xa100")  # in assets/traces, with their source and licence
_RANK = re.compile(r"rank[-_]?(\d{1,6})(?!\d)")


def read_traces(*names: str | Path) -> list[RankTrace]:
    """The ranks of these files, by rank. A name of ``CARRIED`` means that table of the course.

    A file that does not say its rank has that of its name ("rank3", "rank-3"), else its place among the files.

    Raises:
        TraceFileError: A file that cannot be read, is no trace, is damaged or too large, or the rank of another one.
    """
    if not names:
        raise TraceFileError(f"no file was given; give traces of torch.profiler, or one of {', '.join(CARRIED)}.")
    found: list[RankTrace] = []
    for place, name in enumerate(names):
        found += _ranks_of(name, place)
    return _each_once(found)


def table_rows(name: str | Path) -> list[TableRow]:
    """The lines of a table as they stand in it, with the names of kernels; ``name`` as for ``read_traces``.

    Raises:
        TraceFileError: A file that cannot be read, or that is no table.
    """
    path, shown = _path_of(name), one_line(str(name))
    with _named_in_errors(shown):
        return list(rows_of_table(path))


@contextlib.contextmanager
def _named_in_errors(shown: str) -> Iterator[None]:
    """What cannot be read is told with the name of its file."""
    try:
        yield
    except TraceFileError as error:
        raise TraceFileError(f"{shown}: {error}.") from None
    except OSError as error:
        raise TraceFileError(f"{shown} cannot be read: {error.strerror or error}.") from None


def _path_of(name: str | Path) -> Path:
    if not isinstance(name, str | Path):
        raise TraceFileError(f"{one_line(repr(name))} is no name of a file; give a text or a Path.")
    path = Path(name)
    return course_file(f"assets/traces/{name}.csv") if str(name) in CARRIED and not path.exists() else path


def _ranks_of(name: str | Path, place: int) -> list[RankTrace]:
    path, shown = _path_of(name), one_line(str(name))
    with _named_in_errors(shown):
        traces = [rank_of_table(path, shown, place)] if is_table(path) else ranks_in(events_of(path), shown, place)
    if len(traces) == 1 and not traces[0].is_rank_told and (named := _RANK.search(path.name)):
        traces[0].rank, traces[0].is_rank_told = int(named[1]), True
    return traces


def _each_once(traces: Sequence[RankTrace]) -> list[RankTrace]:
    told = {trace.rank for trace in traces if trace.is_rank_told}
    by_rank: dict[int, RankTrace] = {}
    for trace in traces:
        if not trace.is_rank_told and trace.rank in told:
            trace.rank = next(rank for rank in range(len(traces) + len(told)) if rank not in told | by_rank.keys())
        if trace.rank in by_rank:
            raise TraceFileError(
                f"{by_rank[trace.rank].source} and {trace.source} are both of rank {trace.rank}; give one trace a rank."
            )
        by_rank[trace.rank] = trace
    return [by_rank[rank] for rank in sorted(by_rank)]
