"""A table of published runs in a page: what was measured, and what the course's model says of each, twice."""

from __future__ import annotations

from collections.abc import Sequence

from course_lib.plan.runs.replayed import SOURCES, Replayed, replayed_runs

__all__ = ["off_text", "replayed_box", "table_box"]

_HEAD = ("run", "a step took", "model, fitted there", "model, fitted elsewhere", "MFU", "tokens/s and GPU")


def replayed_box(words: str) -> str:
    """The box of ``megatron-2021-t1/18.4B torchtitan``: the runs of these tables, or of one model in a table.

    Raises:
        ValueError: A table, or a model in it, that there is not.
    """
    runs = [run for word in words.split() for run in _runs_of(word)]
    return table_box(f"replays: {words}", [_HEAD, *map(_row, runs)], [run.source for run in runs])


def table_box(begin: str, rows: Sequence[Sequence[str]], sources: Sequence[str]) -> str:
    """A box that begins with these words, a table whose first row is its head, and each source once."""
    head, *others = (f"| {' | '.join(row)} |" for row in rows)
    rule = f"| {' | '.join('---' for _ in rows[0])} |"
    told = f"Measured by: {'; '.join(dict.fromkeys(sources))}."
    return "\n".join([f"<!-- {begin} -->", head, rule, *others, "", told, "<!-- printed -->"])


def _runs_of(word: str) -> list[Replayed]:
    table, _, model = word.partition("/")
    if table not in SOURCES:
        raise ValueError(f"there is no table {table!r} of published runs; there are {', '.join(SOURCES)}.")
    every = replayed_runs(table)
    found = [run for run in every if model in ("", _model(run))]
    if not found:
        have = ", ".join(dict.fromkeys(map(_model, every)))
        raise ValueError(f"table {table} has no model {model!r}; it has {have}.")
    return found


def _model(run: Replayed) -> str:
    """As one word: "BLOOM 181B" is BLOOM-181B."""
    return run.of.run.job.model.name.replace(" ", "-")


def _row(run: Replayed) -> tuple[str, ...]:
    said = [f"{each_s:.3g} s ({off_text(each_s / run.measured_s)})" for each_s in (run.predicted_s, run.elsewhere_s)]
    return (run.name, f"{run.measured_s:.3g} s", *said, f"{run.mfu:.0%}", f"{run.tokens_per_s_per_gpu:,.0f}")


def off_text(ratio: float) -> str:
    """How much too long (+) or too short, in per cent; no sign where it rounds to nothing."""
    percent = round(100 * (ratio - 1))
    return f"{percent:+,d} %".replace("-", "−") if percent else "0 %"
