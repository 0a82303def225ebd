"""What the plan explorer says: the best layout and its parts, what the next ones lose, and what one's own does."""

from __future__ import annotations

from collections.abc import Mapping

from course_lib.plan import Listing, Option, Refusal, StepParts
from course_lib.plan.search.listing import usable_bytes
from course_lib.plot.boards.plan_bars import memory_by_word, time_by_word
from course_lib.widgets.plan.choice import GPUS, PlanChoice
from course_lib.widgets.plan.communication_optimal import more_that_hold
from course_lib.widgets.plan.search import best_of_cuts

__all__ = [
    "ROWS",
    "best_in_words",
    "gb_text",
    "loses",
    "next_in_words",
    "nothing_runs",
    "own_in_words",
    "seconds_text",
]

ROWS = 4  # cuts of the planner's that are shown
_SMALL = 0.005  # of the whole: parts below it are not told
_SAME = 0.001  # of a step: what loses less is as fast


def gb_text(size_bytes: float) -> str:
    """Bytes as gigabytes of 1e9, to a tenth."""
    return f"{size_bytes / 1e9:,.1f} GB"


def seconds_text(time_s: float) -> str:
    """Seconds in three digits, never as a power of ten."""
    return f"{time_s:,.0f} s" if time_s >= 100 else f"{time_s:.3g} s"


def loses(option: Option, best: Option) -> str:
    """As "loses 3.1%"; many times as long where it is no small loss."""
    share = option.step_s / best.step_s - 1
    if abs(share) < _SAME:
        return "is as fast"
    if share >= 1:
        return f"takes {share + 1:,.1f} times as long"
    return f"loses {share:.1%}" if share > 0 else f"gains {-share:.1%}"


def best_in_words(choice: PlanChoice, listing: Listing) -> list[str]:
    """The best layout, and where its time and memory go."""
    best = listing.best
    assert best is not None
    step, memory = time_by_word(best.step), memory_by_word(best.memory)
    return [
        f"{choice}. The best layout that the planner found is {best.layout}: {seconds_text(best.step_s)} a step, "
        f"{choice.share_of_peak(best):.0%} of the GPUs' peak.",
        f"Its time: {_shares(step)}. Its memory: {gb_text(best.memory.total_bytes)} of "
        f"{gb_text(usable_bytes(choice.cluster))}, {_shares(memory)}.",
    ]


def next_in_words(listing: Listing) -> str:
    """What the next cuts lose, and the first of them on what."""
    best, *others = best_of_cuts(listing, ROWS)
    if not others:
        return "No other cut runs."
    first, *rest = others
    said = f"The next cut, {first.layout}, {loses(first, best)}{_where(first.step, best.step)}"
    return "; ".join([said, *(f"{option.layout} {loses(option, best)}" for option in rest)]) + "."


def own_in_words(listing: Listing, found: Option | Refusal) -> str:
    """What one's own layout loses against the best, and on what; or why it cannot be."""
    if isinstance(found, Refusal):
        if found.memory is None:
            return f"Your layout, {found.layout}, is not possible: {found.why}."
        return f"Your layout, {found.layout}, does not fit: {found.why}. To make it fit: {found.instead}."
    best = listing.best
    memory = f"it needs {gb_text(found.memory.total_bytes)}"
    if best is None:
        return f"Your layout, {found.layout}, runs in {seconds_text(found.step_s)} a step, and {memory}."
    where = "" if found.layout == best.layout else _where(found.step, best.step)
    said = "is the best" if found.layout == best.layout else loses(found, best)
    return f"Your layout, {found.layout}, {said}{where}: {seconds_text(found.step_s)} a step, and {memory}."


def nothing_runs(choice: PlanChoice, listing: Listing) -> str:
    """Why no layout runs, and what would have to change."""
    gpus = "this GPU" if choice.gpus == 1 else f"these {choice.gpus:,} GPUs"
    nearest = listing.nearest
    if nearest is not None:
        enough = more_that_hold(choice)
        more = f"{enough:,} GPUs hold it" if enough else f"no number up to {GPUS[1]:,} of these GPUs holds it"
        return (
            f"{choice}: no layout runs on {gpus}. The nearest is {nearest.layout}: {nearest.why}. To make it fit: "
            f"{nearest.instead}. With twice, four times and more of these GPUs: {more}."
        )
    return (
        f"{choice}: no layout runs on {gpus}. The ranks of the data axis share the sequences evenly. Take a batch of "
        f"{choice.gpus:,}, one sequence a GPU, or fewer GPUs."
    )


def _shares(parts: Mapping[str, float]) -> str:
    whole = sum(parts.values())
    told = sorted(parts.items(), key=lambda part: -part[1])
    return ", ".join(f"{word} {size / whole:.0%}" for word, size in told if size >= _SMALL * whole)


def _where(step: StepParts, best: StepParts) -> str:
    """As ", most of it on the pipeline (+0.31 s)"; nothing where no part is longer."""
    parts, those = time_by_word(step), time_by_word(best)
    more = {word: size - those.get(word, 0.0) for word, size in parts.items()}
    word = max(more, key=lambda each: more[each])
    if more[word] <= _SAME * best.total_s or step.total_s <= best.total_s:
        return ""
    return f", most of it by {_THE.get(word, word)} (+{seconds_text(more[word])})"


_THE = {word: f"the {word}" for word in ("host", "tensor axis", "context axis", "pipeline", "data axis", "optimizer")}
