"""What ``course plan`` does with its options: lists, advises, and shows it as a page, a picture and JSON."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

from course_lib.base.whole_file import write_named
from course_lib.plan.inputs.cluster import ClusterSpec
from course_lib.plan.inputs.job import Job
from course_lib.plan.output.certainty import certainty
from course_lib.plan.output.exporters import PROGRAMS, to_type
from course_lib.plan.output.json_io import Plan
from course_lib.plan.output.report import details, meanings, table, why_not
from course_lib.plan.search.advice import advise
from course_lib.plan.search.gpu_count_sweep import list_sizes, pick, size_table
from course_lib.plan.search.listing import Listing, usable_bytes
from course_lib.plan_command.one_layout import compared_pages, why_pages
from course_lib.plan_command.request import PlanRequest, request_of

__all__ = ["plan"]

_REASONS = 5  # told of the refusals
_WIDTH = 104
_FULL = 0.92  # of the memory: above it a layout may not fit after all
_PICTURES = (".png", ".svg")
_OF_A_PAGE = ("layout", "max_gpus", "type", "picture", "json")


def plan(options: argparse.Namespace) -> int:
    """Print the plan; 0 where it meets the request, 1 where nothing does. ValueError for what cannot be understood."""
    _check_what_is_shown(options)
    asked = request_of(options)
    if options.why is not None or options.compare is not None:
        pages = why_pages(asked, options.why) if options.why is not None else compared_pages(asked, options.compare)
        print("\n\n".join([_job_words(asked.job, asked.cluster), *pages]))
        return 0
    lister = asked.lister()
    sizes = []
    if options.max_gpus is not None:
        sizes = list_sizes(asked.cluster, options.max_gpus, asked.job, lister, asked.budget, offload=options.offload)
    listing = pick(sizes, asked.budget) if sizes else lister(asked.cluster, False)
    chosen = _chosen(listing, options.pick)
    advice = tuple(_advice(asked, listing, options))
    found = Plan(listing, asked.budget, advice, chosen, asked.memory_bytes, asked.bands)
    if str(options.json) == "-":
        print(found.to_text(), end="")
    else:
        for part in _page(found, asked, options, sizes):
            print(part + "\n")
        if options.json is not None:
            write_named("--json", options.json, found.to_text().encode())
    if options.picture is not None and listing.options:
        _draw(listing, asked, options.picture)
    return 0 if listing.best is not None and asked.budget.is_in_time(listing) else 1


def _check_what_is_shown(options: argparse.Namespace) -> None:
    """Before anything is listed: files that cannot be, and programs that nobody knows."""
    if options.picture is not None and options.picture.suffix.lower() not in _PICTURES:
        raise ValueError(f"--picture is {str(options.picture)!r}; its name ends in .png or .svg, as in plan.png.")
    if options.type is not None and options.type != "all" and options.type not in PROGRAMS:
        raise ValueError(f"--type is {options.type!r}; it is one of {', '.join(PROGRAMS)}, all.")
    alone = [f"--{name}" for name in ("why", "compare") if getattr(options, name) is not None]
    beside = [f"--{name.replace('_', '-')}" for name in _OF_A_PAGE if getattr(options, name) is not None]
    if alone and (beside or len(alone) > 1):
        raise ValueError(
            f"{alone[0]} prints something else than the page: leave out {' and '.join([*alone[1:], *beside])}."
        )
    for name in ("top", "pick"):
        if getattr(options, name) < 1:
            raise ValueError(f"--{name} is {getattr(options, name)}; it is at least 1.")


def _chosen(listing: Listing, place: int) -> int:
    if not listing.options:
        return 0
    if place > len(listing.options):
        raise ValueError(
            f"--pick is {place}; {len(listing.options)} layouts run. The nearest is {len(listing.options)}."
        )
    return place - 1


def _advice(asked: PlanRequest, listing: Listing, options: argparse.Namespace) -> list[str]:
    """How many GPUs are best is told by the table of sizes, where there is one."""
    in_time = asked.budget.is_in_time(listing)
    full = list(_how_full(listing, options))
    if options.max_gpus is not None and listing.best is not None and in_time:
        return full
    return [*full, *advise(listing, asked.lister(fastest_alone=True), asked.budget)]


def _how_full(listing: Listing, options: argparse.Namespace) -> Iterator[str]:
    """A layout that fills the memory to the brim may not fit after all."""
    if not listing.options:
        return
    has_bytes = listing.cluster.memory_bytes  # and not --memory, which may have left room already
    option = listing.options[_chosen(listing, options.pick)]
    share = option.memory.total_bytes / has_bytes
    if share > _FULL:
        yield (
            f"{option.layout} fills {share:.0%} of a GPU. The planner's memory may be off by about 10 %, so the "
            f"layout may not fit. --memory {0.9 * has_bytes / 1e9:.0f} leaves room."
        )


# -- the page -------------------------------------------------------------------------------------------------------


def _page(found: Plan, asked: PlanRequest, options: argparse.Namespace, sizes: list[Listing]) -> Iterator[str]:
    """Its parts from the top."""
    listing, budget = found.listing, found.budget
    if sizes:
        yield "How many GPUs\n" + size_table(sizes, budget)
    yield _head(listing)
    if listing.best is not None:
        shown = listing.options[: options.top]
        picked = listing.options[found.chosen]
        explained = f"{meanings(one.layout for one in (*shown, picked))}\n{_read(listing, asked)}"
        if budget.tokens is not None and budget.watts is not None:
            explained += f"\n  MWh count the GPUs alone, at {budget.watts:g} W each."
        rows = table(listing, budget, found.bands, top=options.top)
        yield rows if options.brief else f"{rows}\n{explained}"
        yield details(listing, picked)
        yield _lines(certainty(listing, picked, found.bands))
    if listing.refusals and not (options.brief and listing.options):
        yield "\n".join(["Why not the others" if listing.options else "Why not", *why_not(listing, most=_REASONS)])
    if found.advice:
        yield _lines(found.advice)
    if listing.best is not None and not (options.brief and options.type is None):
        yield _typed(found, options.type)
    if asked.remarks:
        yield _lines(asked.remarks)


def _read(listing: Listing, asked: PlanRequest) -> str:
    """How to read the table's numbers."""
    has, limit = listing.cluster.memory_bytes / 1e9, usable_bytes(listing.cluster, asked.memory_bytes) / 1e9
    peak = "16-bit peak" if listing.cluster.product_flops_per_s else "peak"
    text = (
        "8 in 10: 8 of 10 runs lie between these times. MFU is the model's own arithmetic as a share of the GPUs' "
        f"{peak}. A plan fills at most {limit:.1f} of a GPU's {has:.1f} GB."
    )
    return textwrap.fill(text, _WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)


def _lines(sentences: Iterable[str]) -> str:
    """Each sentence from a line of its own."""
    return "\n".join(
        textwrap.fill(sentence, _WIDTH, subsequent_indent="  ", break_on_hyphens=False) for sentence in sentences
    )


def _head(listing: Listing) -> str:
    runs = "1 layout runs" if len(listing.options) == 1 else f"{len(listing.options):,} layouts run"
    return f"{_job_words(listing.job, listing.cluster)} {runs}, {len(listing.refusals):,} do not."


def _job_words(job: Job, cluster: ClusterSpec) -> str:
    nodes = cluster.gpus // cluster.node_size
    gpus = "1 GPU" if cluster.gpus == 1 else f"{cluster.gpus:,} GPUs"
    where = f"{cluster.gpus} {cluster.name}" if cluster.name.startswith("cores of ") else f"{gpus} of {cluster.name}"
    where += f", {nodes:,} nodes" if nodes > 1 else ""
    sequences = "1 sequence" if job.batch == 1 else f"{job.batch:,} sequences"
    return (
        f"{job.model.name}, {_billions(job.model.parameters)} parameters, on {where}\n"
        f"{sequences} of {job.seq:,} tokens a step."
    )


def _billions(number: int) -> str:
    return f"{number / 1e9:.2f} billion" if number >= 1e9 else f"{number / 1e6:.1f} million"


def _typed(found: Plan, program: str | None) -> str:
    if program is None:
        return (
            f"To see what to type for it: --type {', '.join(PROGRAMS)} or all. --pick 2 shows the second layout.\n  "
            '--layout "tp=8" shows those with tp8, and why others of them do not run.'
        )
    job, cluster = found.listing.job, found.listing.cluster
    layout = found.listing.options[found.chosen].layout
    names = list(PROGRAMS) if program == "all" else [program]
    parts = [str(one) for name in names for one in to_type(name, job, layout, cluster)]
    return "\n\n".join([f"What to type for {layout}", *parts])


# -- files ----------------------------------------------------------------------------------------------------------


def _draw(listing: Listing, asked: PlanRequest, path: Path) -> None:
    from course_lib.plot.boards.plan_board import plan_picture

    picture = plan_picture(listing, limit_bytes=asked.memory_bytes)
    write_named("--picture", path, picture.svg() if path.suffix.lower() == ".svg" else picture.png())
