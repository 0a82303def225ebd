"""Reads training runs that others published: one row a run, as a job, a layout, and what was measured.

The columns are those of ``COLUMNS``; an empty field means that the source does not say. Two readings are ours and
hold for every table: a model whose key/value heads are given is of Llama's family, with a gated MLP; and where the
micro-batch is not given, the fastest that fits is taken, and with it the chunks of a pipeline. Memory is in GiB in the
tables of Llama's family (PyTorch's own count), in 1e9 bytes in the others.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course_lib.base.checked import checked
from course_lib.base.checks import at_least, known
from course_lib.plan.estimate.step_time import Job
from course_lib.plan.inputs.layout import Layout
from course_lib.plan.inputs.model import Decoder
from course_lib.plan.search.constraints import why_illegal

__all__ = ["COLUMNS", "PublishedRun", "read_runs"]

COLUMNS = (
    *(
        "table",
        "cluster",
        "gpu",
        "gpus_per_node",
        "model",
        "layers",
        "hidden",
        "heads",
        "kv_heads",
        "ffn",
        "vocab",
    ),
    *(
        "tied",
        "seq",
        "batch",
        "micro_batch",
        "gpus",
        "tp",
        "cp",
        "pp",
        "dp",
        "zero",
        "interleave",
        "seq_parallel",
    ),
    *("recompute", "dtype", "iter_s", "tokens_per_s_per_gpu", "memory_gb", "note"),
)
_NEEDED = ("table", "cluster", "gpu", "layers", "hidden", "heads", "ffn", "vocab", "seq", "gpus")
_GB, _GIB = 10**9, 2**30
_DTYPES = ("float16", "bfloat16")  # the planner counts two bytes a number
_LARGEST = 2**40
_MANY_MICRO_BATCHES = 64  # of a rank, where the batch was made as large as hides the gradients' step


@dataclass(frozen=True)
class PublishedRun:
    """One row. ``has_micro_batch`` says whether the source tells it; ``step_s`` is the whole job's step."""

    line: int
    table: str
    cluster: str
    gpu: str
    node_size: int
    dtype: str
    job: Job
    layout: Layout
    gpus: int
    has_micro_batch: bool
    step_s: float | None
    memory_bytes: float | None
    note: str

    @property
    def name(self) -> str:
        """The row in a few words."""
        return f"line {self.line} ({self.table}, {self.job.model.name}, {self.gpus} GPUs, {self.layout})"

    @property
    def same_job(self) -> tuple[object, ...]:
        """Rows with an equal one are layouts of one job on as many GPUs."""
        return (self.table, self.cluster, self.gpu, self.gpus, self.job)


@checked
def read_runs(path: Path) -> tuple[list[PublishedRun], dict[str, str]]:
    """The runs of a file, and the rows that cannot be read: "line 7 (table)" and why.

    Rows are refused whose numbers or layout cannot be, and those with nothing measured. ValueError for a file that is
    not there, is empty, or lacks a column.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            rows = [dict(row) for row in reader]
            columns = reader.fieldnames or ()
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from None
    missing = [name for name in COLUMNS if name not in columns]
    if missing:
        raise ValueError(f"{path} lacks the columns {', '.join(missing)}; a file of runs has {', '.join(COLUMNS)}.")
    return _runs(rows)


def _runs(rows: Iterable[Mapping[str, str | None]]) -> tuple[list[PublishedRun], dict[str, str]]:
    runs, refused = [], {}
    for line, row in enumerate(rows, start=2):
        try:
            runs.append(_run(line, {key: value or "" for key, value in row.items() if key}))
        except (ValueError, ZeroDivisionError) as error:
            refused[f"line {line} ({row.get('table') or 'no table'})"] = str(error)
    return runs, refused


def _number(row: Mapping[str, str], name: str, empty: float) -> float:
    text = row[name].strip()
    if not text:
        return empty
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"{name} is {text!r}; it is a number, or empty.") from None
    if not 0 <= number < math.inf:
        raise ValueError(f"{name} is {text!r}; it is a number of at least 0, or empty.")
    return number


def _whole(row: Mapping[str, str], name: str, empty: int) -> int:
    number = _number(row, name, empty)
    if number != int(number):
        raise ValueError(f"{name} is {number:g}; it is a whole number. The nearest is {round(number)}.")
    if number > _LARGEST:
        raise ValueError(f"{name} is {number:g}; it is at most {_LARGEST}.")
    return int(number)


def _run(line: int, row: Mapping[str, str]) -> PublishedRun:
    absent = [name for name in _NEEDED if not row[name].strip()]
    if absent:
        raise ValueError(f"{', '.join(absent)} must be given; the row is empty there.")
    model = _model(row)
    kv_heads = model.kv_heads
    micro_batch = _whole(row, "micro_batch", 1)
    axes: dict[str, Any] = {name: _whole(row, name, 1) for name in ("tp", "cp", "pp")}
    gpus = _whole(row, "gpus", 1)
    dp = _whole(row, "dp", 0) or gpus // (axes["tp"] * axes["cp"] * axes["pp"])
    layout = Layout(
        **axes,
        dp=dp,
        micro_batch=micro_batch,
        chunks=_whole(row, "interleave", 1) or 1,
        sharding=_whole(row, "zero", 0),
        sequence_parallel=bool(_whole(row, "seq_parallel", 0)) and axes["tp"] > 1,
        recompute=row["recompute"].strip() or "none",
    )
    if layout.gpus != gpus:
        raise ValueError(f"gpus is {gpus}, and tp x cp x pp x dp is {layout.gpus}; the two must be equal.")
    seq = _whole(row, "seq", 0)
    batch = _whole(row, "batch", 0) or _MANY_MICRO_BATCHES * micro_batch * dp
    step_s = _number(row, "iter_s", 0.0) or None
    if rate := _number(row, "tokens_per_s_per_gpu", 0.0):
        step_s = step_s or batch * seq / (rate * gpus)
    job, node_size = Job(model, seq, batch), _whole(row, "gpus_per_node", 8)
    at_least(1, gpus_per_node=node_size)
    if why := why_illegal(job, layout, gpus):
        raise ValueError(f"this layout cannot be: {why}.")
    memory_bytes = _number(row, "memory_gb", 0.0) * (_GIB if kv_heads else _GB) or None
    if not step_s and not memory_bytes:
        raise ValueError("the row has no measurement: iter_s, tokens_per_s_per_gpu and memory_gb are empty.")
    return PublishedRun(
        line=line,
        table=row["table"],
        cluster=row["cluster"],
        gpu=row["gpu"],
        node_size=node_size,
        dtype=known("dtype", row["dtype"].strip() or "bfloat16", _DTYPES),
        job=job,
        layout=layout,
        gpus=gpus,
        has_micro_batch=bool(row["micro_batch"].strip()),
        step_s=step_s,
        memory_bytes=memory_bytes,
        note=row["note"],
    )


def _model(row: Mapping[str, str]) -> Decoder:
    kv_heads = _whole(row, "kv_heads", 0)
    sizes: dict[str, Any] = {name: _whole(row, name, 0) for name in ("layers", "hidden", "heads", "ffn", "vocab")}
    return Decoder(
        name=row["model"].strip() or f"{row['layers']} x {row['hidden']}",
        **sizes,
        kv_heads=kv_heads,
        gated=kv_heads > 0,
        tied=bool(_whole(row, "tied", 0)),
        norm_parameters=1 if kv_heads else 2,
    )
