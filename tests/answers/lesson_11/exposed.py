"""11.exposed: communication that nothing hides."""

from __future__ import annotations

from answer_table import Row


def merged(spans, kind, glue_s=0.0):
    out = []
    for begin, end in sorted((b, e) for b, e, k in spans if k == kind):
        if out and begin <= out[-1][1] + glue_s:
            out[-1][1] = max(out[-1][1], end)
        else:
            out.append([begin, end])
    return out


def plain(spans):
    total = 0.0
    busy = merged(spans, "compute")
    for begin, end in merged(spans, "communication"):
        total += end - begin
        for b, e in busy:
            total -= max(0.0, min(end, e) - max(begin, b))
    return total


def gaps_below_a_millisecond_glued(spans):
    total = 0.0
    busy = merged(spans, "compute", 1e-3)
    for begin, end in merged(spans, "communication", 1e-3):
        total += end - begin
        for b, e in busy:
            total -= max(0.0, min(end, e) - max(begin, b))
    return max(total, 0.0)


def clipped_at_zero(spans):
    return plain([(max(begin, 0.0), max(end, 0.0), kind) for begin, end, kind in spans])


ROWS = [
    Row(answer=plain, verdict="passed", why="both kinds merged, and what they share taken away"),
    Row(
        answer=gaps_below_a_millisecond_glued,
        verdict="not yet",
        why="a gap of some microseconds in the computing is exposed, too",
    ),
    Row(
        answer=clipped_at_zero,
        verdict="not yet",
        why="no line says where the clock begins, and seconds before its zero are seconds",
        words=("below zero",),
    ),
]
