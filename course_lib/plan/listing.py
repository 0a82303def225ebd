"""All layouts of a job on a cluster: those that run, ranked by their step's time, and those refused, with reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from course_lib.plan.candidates import candidates
from course_lib.plan.cluster import Cluster
from course_lib.plan.constants import Constants
from course_lib.plan.job import Job
from course_lib.plan.layout import Layout
from course_lib.plan.memory import MemoryParts, memory_parts
from course_lib.plan.rules import why_illegal
from course_lib.plan.software import Software
from course_lib.plan.step_time import StepParts, step_parts

__all__ = ["Listing", "Option", "Refusal", "list_layouts"]

_GB = 1e9

# What to change where one part of the memory is what does not fit.
_INSTEAD = {
    "weights": "cut with tp or pp, or share out with sharding 3",
    "gradients": "share out with sharding 2 or 3, or cut with tp or pp",
    "optimizer": "share out with sharding 1 over more data ranks, or offload",
    "activations": "recompute, take smaller micro-batches, or cut with tp or cp",
    "logits": "take smaller micro-batches, or cut with tp or cp",
    "reserve": "take GPUs with more memory",
}


@dataclass(frozen=True)
class Option:
    """A layout that runs."""

    layout: Layout
    memory: MemoryParts
    step: StepParts

    @property
    def step_s(self) -> float:
        """A step, in seconds."""
        return self.step.total_s


@dataclass(frozen=True)
class Refusal:
    """A layout that does not run, and why; ``memory`` where that is the reason."""

    layout: Layout
    why: str
    memory: MemoryParts | None = None

    @property
    def instead(self) -> str:
        """What would have to change, for one that does not fit."""
        return "" if self.memory is None else _INSTEAD[_largest(self.memory)[0]]


@dataclass(frozen=True)
class Listing:
    """Options, the fastest first, and refusals."""

    job: Job
    cluster: Cluster
    options: tuple[Option, ...]
    refusals: tuple[Refusal, ...]

    @property
    def best(self) -> Option | None:
        """The fastest; None where nothing runs."""
        return self.options[0] if self.options else None

    @cached_property
    def nearest(self) -> Refusal | None:
        """Of the layouts that do not fit, the one that lacks least."""
        too_large = [one for one in self.refusals if one.memory is not None]
        return min(too_large, key=lambda one: one.memory.total_bytes if one.memory else 0.0, default=None)

    def reasons(self) -> list[tuple[str, int]]:
        """Why layouts were refused, with how many: for memory by the part that is largest, else by the rule."""
        kinds: Counter[str] = Counter()
        for one in self.refusals:
            if one.memory is not None:
                kinds[f"memory, mostly {_largest(one.memory)[0]}"] += 1
            else:
                kinds[one.why.partition(":")[0]] += 1
        return kinds.most_common()


def list_layouts(
    job: Job,
    cluster: Cluster,
    constants: Constants,
    software: Software,
    *,
    memory_bytes: float | None = None,
    layouts: Iterable[Layout] | None = None,
    offload: bool = False,
) -> Listing:
    """Every candidate (or those of ``layouts``), with memory and time, or with why not.

    ``memory_bytes``: a limit below what the GPU has. ``offload``: optimizer states go to the host's memory.
    """
    limit_bytes = min(memory_bytes or cluster.memory_bytes, cluster.memory_bytes)
    options, refusals = [], []
    for layout in candidates(job, cluster, offload=offload) if layouts is None else layouts:
        if why := why_illegal(job, layout, cluster.gpus):
            refusals.append(Refusal(layout, why))
            continue
        memory = memory_parts(job, layout, cluster, constants, software)
        if memory.total_bytes > limit_bytes:
            refusals.append(Refusal(layout, _why_too_large(memory, limit_bytes), memory))
        else:
            options.append(Option(layout, memory, step_parts(job, layout, cluster, constants, software)))
    options.sort(key=_rank)
    return Listing(job, cluster, tuple(options), tuple(refusals))


def _rank(option: Option) -> tuple[float, ...]:
    """Faster first; at the same time to three digits, fewer axes, then what is less to set, then less memory."""
    layout, step_s = option.layout, option.step_s
    axes = sum(size > 1 for size in (layout.tp, layout.cp, layout.pp))
    settings = layout.sharding + layout.chunks + (layout.recompute != "none") + bool(layout.shard_size)
    return (float(f"{step_s:.3g}"), axes, layout.cp, settings, option.memory.total_bytes)


def _largest(memory: MemoryParts) -> tuple[str, float]:
    sizes = {name.removesuffix("_bytes"): size for name, size in vars(memory).items()}
    name = max(sizes, key=lambda part: sizes[part])
    return name, sizes[name]


def _why_too_large(memory: MemoryParts, limit_bytes: float) -> str:
    """As "93.1 of 80.0 GB: activations 61.0"."""
    name, size = _largest(memory)
    return f"{memory.total_bytes / _GB:.1f} of {limit_bytes / _GB:.1f} GB: {name} {size / _GB:.1f}"
