"""A listing in words: the ranked table with its words explained, and the parts of one layout with bars."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict

from course_lib.plan.inputs.error_bands import ErrorBands
from course_lib.plan.inputs.layout import Layout
from course_lib.plan.inputs.numbers import three_digits
from course_lib.plan.output.certainty import step_band
from course_lib.plan.search.budget import Budget
from course_lib.plan.search.listing import Listing, Option

__all__ = ["details", "meanings", "memory_word", "rates", "table", "time_word", "why_not"]

_GB = 1e9
_BAR = 30  # characters of the longest bar
_WIDTH = 104
_EXTRA = {"days": "days", "energy_mwh": "MWh", "cost": "cost"}

# The parts as the lessons call them.
_TIME = {
    "compute": "layers: arithmetic",
    "output": "output and loss",
    "host": "waiting for the host",
    "tensor": "tensor axis, exposed",
    "context": "context axis, exposed",
    "expert": "experts' all-to-all",
    "pipeline": "between stages",
    "bubble": "bubble",
    "data": "data axis, exposed",
    "optimizer": "optimizer",
}
_MEMORY = {
    "weights": "weights",
    "gradients": "gradients",
    "optimizer": "optimizer states",
    "activations": "activations",
    "logits": "logits and loss",
    "reserve": "CUDA, NCCL, allocator",
}


def rates(listing: Listing, option: Option) -> dict[str, float]:
    """A layout's step, tokens, and MFU: the model's arithmetic, half of attention's, beside the GPUs' peak."""
    job, cluster = listing.job, listing.cluster
    flops = job.batch * job.seq * 3 * job.model.forward_flops(job.seq, causal=True)
    return {
        "step_s": option.step_s,
        "tokens_per_s": job.tokens / option.step_s,
        "tokens_per_s_per_gpu": job.tokens / option.step_s / cluster.gpus,
        "mfu": flops / (option.step_s * cluster.gpus * cluster.peak_flops_per_s),
    }


def table(listing: Listing, budget: Budget, bands: ErrorBands, *, top: int) -> str:
    """The fastest ``top`` layouts, a line each; the times of 8 in 10 runs beside what is told."""
    extra = list(budget.of(listing, listing.options[0])) if listing.options else []
    names = ["step", "8 in 10", "tokens/s", "by GPU", "MFU", "memory", *(_EXTRA[name] for name in extra)]
    wide = [9, 13, 11, 8, 6, 9, *(11 for _ in extra)]
    lines = ["   " + "".join(f" {name:>{size}}" for name, size in zip(names, wide, strict=True)) + "  layout"]
    for place, option in enumerate(listing.options[:top], start=1):
        own, more = rates(listing, option), budget.of(listing, option)
        cells = [
            f"{three_digits(option.step_s)} s",
            step_band(listing, option, bands),
            f"{own['tokens_per_s']:,.0f}",
            f"{own['tokens_per_s_per_gpu']:,.0f}",
            f"{own['mfu']:.0%}",
            f"{option.memory.total_bytes / _GB:.1f} GB",
            *(three_digits(more[name]) for name in extra),
        ]
        row = "".join(f" {cell:>{size}}" for cell, size in zip(cells, wide, strict=True))
        lines.append(f"{place:3}{row}  {option.layout}")
    return "\n".join(lines)


def meanings(layouts: Iterable[Layout]) -> str:
    """A line or two on the words of the layouts that are shown, and on no others."""
    found: dict[str, None] = {}
    for layout in layouts:
        found |= dict.fromkeys(_meanings(layout))
    text = "; ".join(sorted(found, key=lambda meaning: _ORDER.index(meaning.partition(" ")[0][:2])))
    return textwrap.fill(
        f"{text}. Memory is that of the fullest GPU.",
        _WIDTH,
        initial_indent="  ",
        subsequent_indent="  ",
        break_on_hyphens=False,
    )


_ORDER = ["tp", "sp", "cp", "pp", "v", "v2", "v4", "dp", "ep", "et", "mb", "ze", "se", "fu", "of"]


def _meanings(layout: Layout) -> Iterator[str]:
    if layout.tp > 1:
        yield "tp N: N GPUs share each product"
    if layout.sequence_parallel:
        yield "sp: between products they share the positions"
    if layout.cp > 1:
        yield "cp N: N GPUs share each sequence"
    if layout.pp > 1:
        yield "pp N: a pipeline of N stages"
    if layout.chunks > 1:
        yield f"v{layout.chunks}: interleaved, {layout.chunks} virtual stages a rank"
    if layout.dp > 1:
        yield "dp N: N parts of the batch"
    if layout.ep > 1:
        yield "ep N: N GPUs share out the experts"
    if layout.etp:
        yield "etp N: experts have a mesh of their own, and N GPUs cut each"
    yield "mb N: a micro-batch of N sequences"
    if layout.sharding:
        what = {1: "optimizer states", 2: "states and gradients", 3: "states, gradients and weights (FSDP)"}
        yield f"zero{layout.sharding}: {what[layout.sharding]} sharded"
    if layout.shard_size:
        yield f"zero3/{layout.shard_size}: sharded among {layout.shard_size} neighbours (hybrid)"
    if layout.recompute == "selective":
        yield "selective: recomputes every second product in backward"
    elif layout.recompute == "full":
        yield "full: recomputes whole layers in backward"
    if layout.offload:
        yield "offload: optimizer states in the host's memory"


def details(listing: Listing, option: Option) -> str:
    """Where the time and the memory of one layout go, each part with a bar."""
    unit, scale = ("s", 1.0) if option.step_s >= 1 else ("ms", 1e3)
    step = {time_word(name): scale * part for name, part in asdict(option.step).items()}
    memory = {memory_word(name): part / _GB for name, part in asdict(option.memory).items()}
    lines = [f"Time of a step with {option.layout}", *_bars(step, unit)]
    lines += ["", "Memory of its fullest GPU", *_bars(memory, "GB")]
    return "\n".join(lines)


def time_word(part: str) -> str:
    """What the lessons call a part of a step, such as "bubble_s"."""
    name = part.removesuffix("_s")
    return _TIME.get(name, name.replace("_", " "))


def memory_word(part: str) -> str:
    """What the lessons call a part of the memory, such as "optimizer_bytes"."""
    name = part.removesuffix("_bytes")
    return _MEMORY.get(name, name.replace("_", " "))


def _bars(parts: dict[str, float], unit: str) -> list[str]:
    total, largest = sum(parts.values()), max(parts.values())
    lines = []
    for name, part in parts.items():
        if part > 0:
            bar = "#" * round(_BAR * part / largest)
            lines.append(f"  {name:22} {part:9,.2f} {unit:2} {part / total:4.0%}  {bar}".rstrip())
    return lines


def why_not(listing: Listing, *, most: int) -> Sequence[str]:
    """The commonest reasons of refusals with how many, and the one that came nearest to fit."""
    reasons = listing.reasons()
    lines = [f"  {count:6}  {reason}" for reason, count in reasons[:most]]
    rest = sum(count for _, count in reasons[most:])
    if rest:
        lines.append(f"  {rest:6}  other reasons")
    nearest = listing.nearest
    if nearest is not None and listing.best is not None:
        said = f"Nearest to fit: {nearest.layout} takes {nearest.why} GB. To make it fit: {nearest.instead}."
        lines += textwrap.wrap(said, _WIDTH, initial_indent="  ", subsequent_indent="    ")
    return lines
