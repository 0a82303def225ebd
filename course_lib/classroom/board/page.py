"""The board as one page for a projector: large, light or dark, nothing beside it, readable by keyboard and by ear."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape as escaped

from course_lib.classroom.board.board_data import ClassBoard
from course_lib.classroom.board.charts import ChartRow
from course_lib.classroom.board.histogram import bar_table, chart_html
from course_lib.classroom.board.lesson_index import title_of_check
from course_lib.classroom.board.mistake_stats import CheckLine

__all__ = ["MARK", "board_page"]

MARK = '<meta name="generator" content="course class board">'
"""By which a page is known as one that may be written over."""

_MOST_LINES = 12
_STYLE = """
:root { color-scheme: light dark; --ground: #fdfdfc; --ink: #1f2328; --soft: #59606a; --line: #d4d8dd;
  --bar: #0072b2; --run: #b33c00; --box: #f1f3f5; }
@media (prefers-color-scheme: dark) { :root { --ground: #16191d; --ink: #eceef0; --soft: #a9b1bb; --line: #3f464e;
  --bar: #58aee6; --run: #ff9d5c; --box: #21262c; } }
* { box-sizing: border-box; }
html { font-size: clamp(1rem, 0.7rem + 0.75vw, 2.2rem); }
body { margin: 0; padding: 0.8rem 1.4rem 2rem; background: var(--ground); color: var(--ink);
  font: 1rem/1.4 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0.2rem 0; }
h2 { font-size: 1.3rem; margin: 1.2rem 0 0.3rem; }
h2 .soft { font-weight: 400; white-space: nowrap; }
p { margin: 0.25rem 0; }
.soft { color: var(--soft); font-size: 0.85rem; }
.columns { columns: 27rem 2; column-gap: 2.5rem; }
.columns section { break-inside: avoid; }
.columns h2 { margin-top: 0.9rem; }
.chart { background: var(--box); border-radius: 0.5rem; padding: 0.6rem 1rem 0.8rem; margin: 0.6rem 0; }
.chart p { font-size: 1.1rem; }
table { border-collapse: collapse; width: 100%; margin: 0.3rem 0; }
th, td { text-align: left; vertical-align: top; padding: 0.25rem 0.9rem 0.25rem 0;
  border-bottom: 1px solid var(--line); }
td:last-child, th:last-child { padding-right: 0; }
thead th { color: var(--soft); font-weight: 500; font-size: 0.85rem; overflow-wrap: normal; vertical-align: bottom; }
tbody th { font-weight: 600; }
.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.bars tbody th { width: 45%; font-weight: 500; }
.bars td { font-weight: 700; }
span.bar { display: inline-block; height: 0.95em; vertical-align: -0.1em; background: var(--bar); border-radius: 2px;
  forced-color-adjust: none; }
.measured { color: var(--run); }
.model { color: var(--ink); }
.names { color: var(--soft); font-size: 0.85rem; }
tr:has(+ tr > .names) > * { border-bottom: 0; padding-bottom: 0; }
.standing tbody th { width: 34%; }
.standing .number { width: 5.5rem; }
.standing thead th { white-space: normal; }
.standing th .soft { font-weight: 400; }
.chart h2 { font-size: 1.2rem; line-height: 1.3; margin: 0.2rem 0 0.5rem; }
.chart { display: grid; grid-template-columns: 1fr; gap: 0 2rem; }
.chart h2, .chart details { grid-column: 1 / -1; }
@media (min-width: 75rem) { .chart { grid-template-columns: minmax(0, 2.3fr) minmax(0, 1fr); } }
.picture { overflow-x: auto; min-width: 0; }
svg { display: block; width: 100%; min-width: 34rem; max-height: 62vh; }
svg text { fill: var(--ink); font-size: 27px; }
svg .count { font-size: 30px; font-weight: 700; }
svg .edge { fill: var(--soft); font-size: 25px; }
svg .bar { fill: var(--bar); }
svg .axis { stroke: var(--soft); stroke-width: 2; }
svg line.measured { stroke: var(--run); stroke-width: 6; }
svg text.measured { fill: var(--run); font-weight: 700; }
svg rect.band { fill: var(--run); opacity: 0.16; }
svg line.model { stroke: var(--ink); stroke-width: 4; stroke-dasharray: 12 8; }
svg text.model { font-weight: 700; }
svg text.model, svg text.measured, svg .count { paint-order: stroke; stroke: var(--box); stroke-width: 6px; }
:focus-visible, summary:focus-visible { outline: 3px solid var(--bar); outline-offset: 2px; }
summary { cursor: pointer; color: var(--soft); padding: 0.2rem 0; }
@media (max-width: 40rem) {
  body { padding: 0.6rem 0.7rem 2rem; }
  .bars tbody th { width: 50%; }
  .standing thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  .standing tbody tr { display: block; border: 1px solid var(--line); border-radius: 6px; padding: 0.3rem 0.7rem;
    margin: 0.5rem 0; }
  .standing tbody th { display: block; width: auto; border: 0; padding: 0.1rem 0; }
  .standing tbody td { display: flex; gap: 0.8rem; border: 0; padding: 0.1rem 0; text-align: left;
    width: auto; white-space: normal; }
  .standing tbody td.number { width: auto; }
  .standing tbody td.names::before { content: none; }
  .standing tbody tr:has(> .names) { margin-top: -0.75rem; border-top: 0; }
  .standing td > span { flex: 1; }
  .standing tbody td::before { content: attr(data-label); flex: 0 0 8rem; color: var(--soft); }
}
"""


def board_page(board: ClassBoard, *, drawn_at: str, refresh_s: int = 0) -> str:
    """The whole page. ``drawn_at`` says when, in words; with ``refresh_s`` the browser loads it again and again."""
    again = f'<meta http-equiv="refresh" content="{refresh_s}">\n' if refresh_s else ""
    title = f"The class: {board.title}"
    people = "1 learner shares" if board.learners == 1 else f"{board.learners} learners share"
    told = f"{people} their progress. Drawn {drawn_at}" + (f", again every {refresh_s} s." if refresh_s else ".")
    # nothing is loaded and no script runs, whatever somebody has written into a file of theirs
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"{MARK}\n{again}<title>{escaped(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{escaped(title)}</h1>\n<p class='soft'>{escaped(told)}</p>\n{_body(board)}\n</main>\n</body>\n</html>\n"
    )


def _body(board: ClassBoard) -> str:
    if not board.learners:
        return (
            "<p>Nobody has shared anything here yet. Each learner does so by "
            "<code>course class share FOLDER</code>.</p>" + _left_out(board)
        )
    charts = "".join(chart_html(chart, "learners") for chart in board.charts)
    parts = [_where(board), _checks(board), _mistakes(board), _waiting(board)]
    return f"{charts}<div class='columns'>{''.join(parts)}</div>{_left_out(board)}"


def _table(head: list[str], rows: list[list[str]], caption: str, below: Sequence[str] = ()) -> str:
    """Cells are HTML; the columns after the second hold numbers. Rows are cards on a phone: roles outlive the looks.
    ``below``: for each row a text to stand below it, over all columns.
    """
    kind = ["", "", *("number" for _ in head[2:])]
    top = "".join(
        f"<th scope='col' role='columnheader' class='{k}'>{text}</th>" for k, text in zip(kind, head, strict=True)
    )
    body = ""
    for number, (first, *rest) in enumerate(rows):
        cells = "".join(
            f"<td role='cell' class='{k}' data-label='{name}'><span>{cell}</span></td>"
            for k, name, cell in zip(kind[1:], head[1:], rest, strict=True)
        )
        body += f"<tr role='row'><th scope='row' role='rowheader'>{first}</th>{cells}</tr>"
        if below and below[number]:
            wide = f"<td role='cell' class='names' colspan='{len(head)}'>{escaped(below[number])}</td>"
            body += f"<tr role='row'>{wide}</tr>"
    return (
        f"<table role='table' class='standing' aria-label='{escaped(caption)}'><thead role='rowgroup'>"
        f"<tr role='row'>{top}</tr></thead><tbody role='rowgroup'>{body}</tbody></table>"
    )


def _section(title: str, body: str) -> str:
    return f"<section><h2>{title}</h2>{body}</section>"


def _bar(count: int, most: int) -> str:
    return f"<span class='bar' style='width:{55 * count / (most or 1):.1f}%'></span> <strong>{count}</strong>"


def _where(board: ClassBoard) -> str:
    most = max((len(line.here) for line in board.places), default=0)
    rows = []
    for line in board.places:
        through = "–" if line.through is None else str(line.through)
        place = f"{escaped(line.place)} <span class='soft'>{escaped(line.short_title)}</span>"
        rows.append([place, _bar(len(line.here), most), str(line.begun), through])
    if not rows:
        return _section("Who is where", "<p>Nobody has begun here yet.</p>")
    names = [" · ".join(line.here) for line in board.places]
    head = ["part", "here now", "have begun", "passed every check"]
    return _section("Who is where", _table(head, rows, "Who is where", names))


def _checks(board: ClassBoard) -> str:
    if not board.checks:
        return _section("What holds up", "<p>No check has been tried yet.</p>")
    shown = board.checks[:_MOST_LINES]
    most = max(line.held_up for line in shown)
    rows = [
        [
            _check_name(line),
            _bar(line.held_up, most),
            f"{line.passed} of {line.tried}",
            f"{line.tries:g}",
            f"{line.hinted} / {line.solved}",
        ]
        for line in shown
    ]
    head = ["check", "tried, not passed", "passed", "tries (median)", "had hints / solution"]
    return _section("What holds up", _table(head, rows, "Checks, by how many they hold up") + _more(board.checks))


def _check_name(line: CheckLine) -> str:
    title = title_of_check(line.name)
    return f"{escaped(line.name)}" + (f" <span class='soft'>{escaped(title)}</span>" if title else "")


def _more(lines: tuple[object, ...]) -> str:
    more = len(lines) - _MOST_LINES
    return f"<p class='soft'>and {more} more; --lesson 04a shows those of one part</p>" if more > 0 else ""


def _mistakes(board: ClassBoard) -> str:
    if not board.mistakes:
        return _section("Named mistakes", "<p>None has been met yet.</p>")
    shown = board.mistakes[:_MOST_LINES]
    most = max(line.learners for line in shown)
    rows = [
        [
            f"{escaped(line.words)} <span class='soft'>{escaped(line.check)}</span>",
            _bar(line.learners, most),
            str(line.times),
        ]
        for line in shown
    ]
    table = _table(["mistake", "met by", "times"], rows, "Named mistakes, by how many met them")
    return _section("Named mistakes", table + _more(board.mistakes))


def _waiting(board: ClassBoard) -> str:
    if not board.waiting and not board.unknown:
        return ""
    rows = tuple(ChartRow(name, predicted) for name, _, predicted, _ in board.waiting)
    body = bar_table(rows, ("question", "have predicted"), "Questions that are not shown yet") if rows else ""
    for name in board.unknown:
        body += f"<p>{escaped(name)}: nobody has predicted it yet.</p>"
    return _section("Predictions, still covered", body)


def _left_out(board: ClassBoard) -> str:
    """How many files, and not which: a file's name may say whose it is. The terminal names them."""
    told = []
    if board.half:
        files = (
            "1 file counts as far as it" if len(board.half) == 1 else f"{len(board.half)} files count as far as they"
        )
        told.append(f"{files} could be read.")
    if board.skipped:
        files = "1 file was" if len(board.skipped) == 1 else f"{len(board.skipped)} files were"
        told.append(f"{files} left out; the terminal says which, and why.")
    return f"<p class='soft'>{' '.join(told)}</p>" if told else ""
