"""A file of published runs, as those who publish would fill it in."""

from __future__ import annotations

import csv
from pathlib import Path

from course_lib.plan.runs.published import COLUMNS

# As Megatron-LM's authors and others would fill it in; the times are made up, of the planner's own constants.
ROW = {
    "table": "t",
    "cluster": "Nowhere",
    "gpu": "A100-80GB",
    "gpus_per_node": "8",
    "layers": "24",
    "hidden": "2048",
    "heads": "16",
    "ffn": "8192",
    "vocab": "51200",
    "seq": "2048",
    "batch": "64",
    "micro_batch": "2",
    "gpus": "16",
    "tp": "2",
    "dp": "8",
    "recompute": "full",
    "dtype": "bfloat16",
    "iter_s": "1.0",
}


def write(path: Path, *rows: dict[str, str]) -> Path:
    """Such a file, with these rows."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    return path
