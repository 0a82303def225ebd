"""``--why LAYOUT`` takes one layout apart, ``--compare A B`` two: what each part is made of, and what differs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from course_lib.plan.inputs.software import Software
from course_lib.plan.output.comparison import comparison
from course_lib.plan.output.derived import Derived, quantity
from course_lib.plan.output.memory_derivation import MemoryDerivation
from course_lib.plan.output.time_derivation import TimeDerivation
from course_lib.plan.search.listing import Listing, Option, Refusal, list_layouts, usable_bytes
from course_lib.plan_command.layout_words import asked_candidates, asked_words, check_axes
from course_lib.plan_command.request import PlanRequest

__all__ = ["compared_pages", "why_pages"]


def why_pages(asked: PlanRequest, words: str) -> Iterator[str]:
    """The step and the memory of one layout, line by line. One that does not fit has its memory told.

    ValueError for words that are none, and for a layout that cannot run.
    """
    found, like = _found(asked, words, "--why")
    if isinstance(found, Refusal) and found.memory is None:
        raise ValueError(f"{found.layout} does not run. {found.why}")
    layout, software = found.layout, Software()
    if like > 1:
        which = "fastest" if isinstance(found, Option) else "nearest to fit"
        yield f"{layout} is the {which} of the {like} layouts that match {words!r}."
    if isinstance(found, Option):
        time = TimeDerivation(asked.job, layout, asked.cluster, asked.constants, software)
        head = f"A step with {layout}: {quantity(found.step_s, 's')}"
        yield "\n".join([head, *_lines(list(time.lines()))])
    memory = MemoryDerivation(asked.job, layout, asked.constants, software)
    has = usable_bytes(asked.cluster, asked.memory_bytes)
    needs = memory.memory.total_bytes
    head = f"Memory of its fullest GPU: {quantity(needs, 'bytes')} of {quantity(has, 'bytes')} that can be filled"
    if isinstance(found, Refusal):
        head = (
            f"{layout} does not fit: {quantity(needs - has, 'bytes')} too much. To make it fit: "
            f"{found.instead}.\n{head}"
        )
    yield "\n".join([head, *_lines(list(memory.lines()))])


def compared_pages(asked: PlanRequest, words: Sequence[str]) -> Iterator[str]:
    """Two layouts side by side; ValueError where one of them does not run."""
    first, second = (_option(asked, one) for one in words)
    yield from comparison(first, second, asked.bands)


def _option(asked: PlanRequest, words: str) -> Option:
    """The fastest layout that these words describe; ValueError, with the reason, where none of them runs."""
    found, _ = _found(asked, words, "--compare")
    if isinstance(found, Refusal):
        lack = (
            f"it needs {quantity(found.memory.total_bytes, 'bytes')}. To make it fit: {found.instead}."
            if found.memory
            else found.why
        )
        raise ValueError(f"{found.layout} does not run: {lack}")
    return found


def _found(asked: PlanRequest, words: str, option: str) -> tuple[Option | Refusal, int]:
    """The best layout like that, and of how many that run, or where none runs, of how many that do not."""
    wanted = asked_words(words, option)
    if not wanted:
        raise ValueError(f"{option} names no layout; write one as it is printed, as in {option} 'tp8 pp2 mb1 zero1'.")
    check_axes(wanted, asked.cluster.gpus, option)
    listing: Listing = list_layouts(
        asked.job,
        asked.cluster,
        asked.constants,
        Software(),
        memory_bytes=asked.memory_bytes,
        layouts=asked_candidates(asked.job, asked.cluster, wanted, asked.offload),
    )
    if listing.best is not None:
        return listing.best, len(listing.options)
    return listing.nearest or listing.refusals[0], len(listing.refusals)


def _lines(derived: Sequence[Derived]) -> Iterator[str]:
    for one in derived:
        yield from one.lines()
