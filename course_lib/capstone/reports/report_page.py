"""A report as one page: what was asked, what was chosen, what was measured beside what is known, and the defence."""

from __future__ import annotations

from course_lib.capstone.reports.page import escaped, image, page, paragraphs, table
from course_lib.capstone.reports.result_file import ResultRecord

__all__ = ["report_page"]

_HEAD = ("looked at", "yours", "limit", "planner's best", "best known", "points")
_TRUST = (
    "Measured on the machine below. Ranks, messages, bytes and memory are real; links are shaped and computing is "
    "paced, so a step compares plans with each other, and says nothing of a GPU. The step that counts is what ranks "
    "computed, sent and waited for, played again with the job's pace and links: no other user of the machine is in it. "
    "A file can be edited: who gives marks runs the learner's code again."
)


def report_page(record: ResultRecord, png: bytes, alt: str) -> str:
    """The page's HTML, the picture within."""
    title = f"Capstone, level {record.level}, seed {record.seed}"
    by = f" · {record.name}" if record.name else ""
    body = [
        f"<h1>{escaped(title)}{escaped(by)}</h1>",
        '<p class="soft">One Model, Many GPUs</p>',
        f'<p class="points">{record.points:.0f}<span class="soft"> of 100 points</span></p>',
        _why(record),
        image(png, alt),
        "<h2>What was measured</h2>",
        table(_HEAD, _rows(record), "What was measured, beside limits and the best known"),
        "".join(f"<p>{escaped(row.what)}: {escaped(row.why)}</p>" for row in record.rows if row.why),
        "<h2>The choice</h2>",
        f"<p>{escaped(record.mesh)}</p>" if record.mesh else '<p class="soft">Not named.</p>',
        "<h2>The defence</h2>",
        paragraphs(record.defence) or '<p class="soft">None was written.</p>',
        "<h2>The job</h2>",
        f"<pre>{escaped(record.job)}</pre>",
        f'<p class="soft">{escaped(_TRUST)}</p>',
        f'<p class="soft">{escaped(" · ".join(part for part in (record.machine, record.written) if part))}</p>',
    ]
    return page(title + by, "\n".join(body))


def _why(record: ResultRecord) -> str:
    said = ""
    if record.why:
        said += f'<div class="box warn"><p>{escaped(record.why)}</p></div>'
    if record.cheats:
        said += f'<div class="box warn"><p>Told by name: {escaped(", ".join(record.cheats))}.</p></div>'
    return said


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
