"""What ``course trace`` does with its options: a page, a picture, JSON."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from course_lib.base.whole_file import write_named
from course_lib.traces.report import trace_report

__all__ = ["show"]

_PICTURES = (".png", ".svg")


def show(options: argparse.Namespace) -> int:
    """Print what the files say; 0. ValueError for a file that is no trace, and for one that cannot be written."""
    if options.picture is not None and options.picture.suffix.lower() not in _PICTURES:
        raise ValueError(f"--picture is {str(options.picture)!r}; its name ends in .png or .svg, as in trace.png.")
    report = trace_report(*options.files)
    if options.json is not None:
        text = json.dumps(report.to_dict(), indent=1) + "\n"
        if options.json != "-":
            write_named("--json", Path(options.json), text.encode())
    if options.json == "-":
        print(text, end="")
    else:
        print(report)
    if options.picture is not None:
        picture = report.picture()
        is_svg = options.picture.suffix.lower() == ".svg"
        write_named("--picture", options.picture, picture.svg() if is_svg else picture.png())
    return 0
