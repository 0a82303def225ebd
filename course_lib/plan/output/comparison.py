"""Two layouts side by side: each part of the step and of the memory, and which of them makes the difference."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import asdict

from course_lib.base.text import columns
from course_lib.plan.inputs.error_bands import ErrorBands
from course_lib.plan.output.derived import quantity
from course_lib.plan.output.report import memory_word, time_word
from course_lib.plan.search.listing import Option

__all__ = ["comparison"]

_WIDTH = 104
_SAME = 0.005  # of a total: parts that differ by less are told apart by nobody


def comparison(first: Option, second: Option, bands: ErrorBands) -> Iterator[str]:
    """A table of the step, one of the memory, and a sentence on each."""
    for title, unit, word, parts in (
        ("A step", "s", time_word, [asdict(one.step) for one in (first, second)]),
        ("Memory of the fullest GPU", "bytes", memory_word, [asdict(one.memory) for one in (first, second)]),
    ):
        mine, others = parts
        shown = [name for name in mine if mine[name] > 0 or others[name] > 0]
        rows = [[title, str(first.layout), str(second.layout), "difference"]]
        rows += [_row("  " + word(name), mine[name], others[name], unit) for name in shown]
        rows.append(_row("  all of it", sum(mine.values()), sum(others.values()), unit))
        yield "\n".join(columns(rows))
    yield textwrap.fill(_verdict(first, second, bands), _WIDTH, break_on_hyphens=False)


def _row(name: str, mine: float, others: float, unit: str) -> list[str]:
    return [name, *(quantity(value, unit) if value else "-" for value in (mine, others)), _signed(others - mine, unit)]


def _signed(difference: float, unit: str) -> str:
    return f"{'+' if difference > 0 else '-'}{quantity(abs(difference), unit)}" if difference else "="


def _verdict(first: Option, second: Option, bands: ErrorBands) -> str:
    """Which is faster, by what most of all; or that nobody can tell."""
    fast, slow = sorted((first, second), key=lambda one: one.step_s)
    ratio = slow.step_s / fast.step_s
    if ratio - 1 < _SAME:
        return f"{fast.layout} and {slow.layout} take equally long."
    own, more = asdict(fast.step), asdict(slow.step)
    gains = sorted(((more[name] - own[name], name) for name in own), reverse=True)
    why = [f"{time_word(name)} ({_signed(gain, 's')})" for gain, name in gains[:2] if gain > 0]
    text = f"{slow.layout} takes {ratio:.2f} times as long as {fast.layout}, most of it by {' and '.join(why)}."
    if gains[-1][0] < -_SAME * fast.step_s:
        text += f" The slower one saves {quantity(-gains[-1][0], 's')} of {time_word(gains[-1][1])}."
    if ratio <= bands.tie:
        text += (
            f" One in ten pairs predicted less than {bands.tie - 1:.0%} apart ran in the other order: these two are a "
            "tie."
        )
    return text
