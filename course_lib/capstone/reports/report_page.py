"""A report as one page: what was asked, what was chosen, what was measured beside what is known, and the defence."""

from __future__ import annotations

import base64

from course_lib.capstone.reports.code_rows import CODE_HEAD
from course_lib.capstone.reports.page import fill
from course_lib.capstone.reports.result_file import ResultRecord

__all__ = ["report_page"]

_HEAD = ("looked at", "yours", "limit", "planner's best", "best known", "points")
_TRUST = (
    "Measured on the machine below. Ranks, messages, bytes and memory are real. Links are shaped and computing is "
    "paced. So steps compare plans with each other, and say nothing of a GPU. For the step that counts, the judge "
    "replays what ranks computed and sent, with the job's pace and links. So other users of the machine do not change "
    "it. A file can be edited: to give marks, run the learner's code again."
)


def report_page(record: ResultRecord, png: bytes, alt: str) -> str:
    """The page's HTML, the picture within."""
    title = f"Capstone, level {record.level}, seed {record.seed}" + (f" · {record.name}" if record.name else "")
    picture = base64.b64encode(png).decode("ascii")
    told = {"record": record, "head": _HEAD, "rows": _rows(record), "trust": _TRUST, "code_head": CODE_HEAD}
    return fill("report.html", title=title, picture=picture, alt=alt, **told)


def _rows(record: ResultRecord) -> list[tuple[str, ...]]:
    return [
        (
            row.what,
            row.yours,
            row.limit,
            row.planner,
            row.best,
            f"{row.points:g} of {row.of:g}" if row.of else "–",
        )
        for row in record.rows
    ]
