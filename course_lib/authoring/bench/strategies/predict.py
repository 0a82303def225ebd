"""``course bench predict``: what the cost model says of collectives on this machine, beside what they take.

What the predictions are made of (messages, copies and additions, as in ``calibrate()``; none of the collectives
judged here) is measured in turns with the collectives. A time goes from the last rank that begins to the last
that has finished; of several rounds the lower quartile counts, on both sides: other work only lengthens times.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from course_lib.authoring.bench.options import bench_parser, open_table
from course_lib.authoring.bench.table import Table
from course_lib.cluster.api.cluster import Cluster
from course_lib.cluster.base.flat_collectives import flat_collective
from course_lib.cluster.base.rank import Rank
from course_lib.cluster.links.links import Links
from course_lib.cost.collectives.gloo import GLOO_COLLECTIVES, gloo_time
from course_lib.meter.calibration.together import (
    Spans,
    Times,
    Together,
    add_times,
    experiments,
    spans_of,
    together_of,
    undisturbed_s,
)
from course_lib.meter.units import bytes_text, time_text

if TYPE_CHECKING:
    import torch

__all__ = ["PredictionError", "main"]

SIZES = tuple(4096 * 4**power for power in range(8))  # 4 KiB to 64 MiB
WORLD_SIZES = (2, 4)
PROMISED_ERROR = 0.20
NEAR = 0.25
_LIMIT_S = 120.0


@dataclass(frozen=True)
class PredictionError:
    """One prediction and its measurement, in seconds; ``size_bytes`` is the whole buffer."""

    collective: str
    num_ranks: int
    size_bytes: int
    predicted_s: float
    measured_s: float
    spread: float = 0.0  # the share that the prediction says it may be off by

    @property
    def error(self) -> float:
        """How far the prediction is off, as a share of what was measured; above zero when it is too long."""
        return self.predicted_s / self.measured_s - 1


def main(arguments: list[str]) -> int:
    parser = bench_parser("predict", __doc__, rounds=6, of="turns of calibrating and measuring")
    options = parser.parse_args(arguments)
    with open_table(options, head=False) as table:
        together, rows = compare(options.rounds)
        show(table, rows)
    if options.json:
        add_to_record(options.json, together, rows)
    return 0


def compare(
    rounds: int, *, world_sizes: Sequence[int] = WORLD_SIZES, sizes: Sequence[int] = SIZES
) -> tuple[list[Together], list[PredictionError]]:
    """Calibrate, predict and measure, for every collective, number of ranks and size.

    Calibration and collectives take turns on the same ranks, so that a change of the machine's mood meets
    both.
    """
    together, measured = [], {}
    for num_ranks in world_sizes:
        of_steps: Times = {}
        of_collectives: Times = {}
        with Cluster(num_ranks, links=Links(), timeout_s=_LIMIT_S) as cluster:
            for _ in range(rounds):
                add_times(of_steps, list(cluster.call(experiments, show=False)))
                add_times(of_collectives, list(cluster.call(run_collectives, (sizes,), show=False)))
        together.append(together_of(num_ranks, of_steps))
        for (name, size_bytes), times_s in of_collectives.items():
            measured[name, num_ranks, size_bytes] = undisturbed_s(times_s)
    rows = []
    for (name, num_ranks, size_bytes), measured_s in measured.items():
        told = gloo_time(name, size_bytes, num_ranks=num_ranks, together=together)
        rows.append(PredictionError(name, num_ranks, size_bytes, told.time_s, measured_s, told.spread))
    return together, sorted(rows, key=lambda row: (GLOO_COLLECTIVES.index(row.collective), row.num_ranks))


def run_collectives(me: Rank, sizes: Sequence[int]) -> dict[tuple[str, int], Spans]:
    """Every collective with every size on this rank, in main memory."""
    return {
        (name, size_bytes): spans_of(_collective(name, size_bytes, me.world_size))
        for size_bytes in sizes
        for name in GLOO_COLLECTIVES
    }


def _collective(name: str, size_bytes: int, num_ranks: int) -> Callable[[], Any]:
    import torch
    import torch.distributed as dist

    whole = torch.ones(size_bytes // 4)
    part = torch.ones(size_bytes // 4 // num_ranks)
    calls: dict[str, Callable[[], torch.Tensor | Any]] = {
        "all_reduce": lambda: dist.all_reduce(whole),
        "all_gather": lambda: flat_collective("all_gather")(whole, part),
        "reduce_scatter": lambda: flat_collective("reduce_scatter")(part, whole),
        "broadcast": lambda: dist.broadcast(whole, src=0),
    }
    return calls[name]


def show(table: Table, rows: Sequence[PredictionError]) -> None:
    """Print every comparison, then the median errors, which the table judges."""
    print(f"\n{'collective':16}{'ranks':>5}{'size':>10}{'predicted':>12}{'measured':>12}{'error':>8}")
    for row in rows:
        print(
            f"{row.collective:16}{row.num_ranks:>5}{bytes_text(row.size_bytes):>10}"
            f"{time_text(row.predicted_s):>12}{time_text(row.measured_s):>12}{row.error:>+8.0%}"
        )
    print()
    table.print_head()
    for name in GLOO_COLLECTIVES:
        errors = [100 * abs(row.error) for row in rows if row.collective == name]
        if errors:
            table.add(f"error of the prediction, {name}", errors, "%")
    everything = [100 * abs(row.error) for row in rows]
    table.add("error of the prediction, all", everything, "%", target=100 * PROMISED_ERROR)
    within = sum(abs(row.error) <= NEAR for row in rows) / len(rows)
    in_band = sum(1 / (1 + row.spread) <= row.predicted_s / row.measured_s <= 1 + row.spread for row in rows)
    spreads = ", ".join(
        f"{spread:.0%} of {num_ranks} ranks"
        for num_ranks, spread in {row.num_ranks: row.spread for row in rows}.items()
    )
    print(f"{within:.0%} of {len(rows)} predictions are within {NEAR:.0%} of what was measured.")
    print(f"What they are made of spread by {spreads}; {in_band / len(rows):.0%} are within that.")


def add_to_record(path: Path, together: Sequence[Together], rows: Sequence[PredictionError]) -> None:
    """Keep the comparisons, and what they were predicted from, beside the table's rows."""
    record = json.loads(path.read_text())
    record["comparisons"] = [asdict(row) for row in rows]
    record["together"] = [asdict(measured) for measured in together]
    path.write_text(json.dumps(record, indent=1) + "\n")
