"""``course trace``: where the time of a job went, by the traces of ``torch.profiler`` that its ranks wrote.

For example
    course trace rank0.json rank1.json.gz     the traces of two ranks: also who waits for whom
    course trace ddp_resnet_2xa100            a real job's, which the course carries as a table; the other one is
                                              recommender_rank3_of_8xa100
    course trace trace.json --picture t.png   the same to look at; --json t.json for programs

A trace is what torch.profiler writes, plain or .gz:

    with torch.profiler.profile(record_shapes=True) as profiler:
        train()
    profiler.export_chrome_trace(f"rank{rank}.json")

Of your ranks in a notebook, profiled(cluster, train).timeline.save("trace.json") writes one for all of them.

Computing is kernels (and copies within a device); communication NCCL's kernels or gloo's calls. It hides while the
device computes, and is exposed otherwise. Bytes are the rank's input, where the trace says it (of gloo: with
record_shapes=True). A device waits for the host while what comes next has not been launched.

Files of at most 2 GiB of JSON and 4,000,000 events are read; nothing of them leaves this machine.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

__all__ = ["parse"]


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in a sentence."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message}. `course trace --help` has an example.")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options; ValueError for a word that is none."""
    parser = _Parser(
        prog="course trace",
        usage="course trace FILE... [--picture FILE] [--json FILE]",
        description=(__doc__ or "").replace("``", ""),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", metavar="FILE", nargs="+", help="a trace of one rank, or of several")
    parser.add_argument("--picture", metavar="FILE", type=Path, help="draw where the time went into this .png or .svg")
    shown = "keep everything in this file; - prints it in place of the page"
    parser.add_argument("--json", metavar="FILE", help=shown)
    return parser.parse_args(list(arguments))
