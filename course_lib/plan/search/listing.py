"""All layouts of a job on a cluster: those that run, ranked by their step's time, and those refused, with reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property

from course_lib.base.checked import checked, checked_before
from course_lib.plan.estimate.host_doubt import HostDoubt
from course_lib.plan.estimate.memo import Memo
from course_lib.plan.estimate.memory import MemoryParts, memory_parts
from course_lib.plan.estimate.step_time import StepParts, step_parts
from course_lib.plan.inputs.cluster import ClusterSpec
from course_lib.plan.inputs.constants import Constants
from course_lib.plan.inputs.job import Job
from course_lib.plan.inputs.layout import Layout
from course_lib.plan.inputs.software import Software
from course_lib.plan.search.constraints import why_illegal
from course_lib.plan.search.search_space import candidates

__all__ = ["Listing", "Option", "Refusal", "list_layouts", "rank_of", "usable_bytes"]

_GB = 1e9
# Of a GPU's memory: with less room PyTorch's allocator frees and asks again, and runs get slow.
_FILLED = 0.93

# What to change where one part of the memory is what does not fit; where a condition holds, or else always.
_INSTEAD: dict[str, tuple[tuple[str, Callable[[Layout], bool]], ...]] = {
    "weights": (
        ("cut with tp or pp", lambda _: True),
        ("shard with sharding 3", lambda layout: layout.sharding < 3),
    ),
    "gradients": (
        ("shard with sharding 2 or 3", lambda layout: layout.sharding < 2),
        ("cut with tp or pp", lambda _: True),
    ),
    "optimizer": (
        ("shard with sharding 1 over more data ranks", lambda layout: layout.sharding < 1),
        ("shard over more data ranks", lambda layout: layout.sharding >= 1),
        ("cut with tp or pp", lambda _: True),
        ("offload", lambda layout: not layout.offload),
    ),
    "activations": (
        ("recompute", lambda layout: layout.recompute == "none"),
        ("recompute whole layers", lambda layout: layout.recompute == "selective"),
        ("take smaller micro-batches", lambda layout: layout.micro_batch > 1),
        ("cut with tp or cp", lambda _: True),
    ),
    "logits": (
        ("take smaller micro-batches", lambda layout: layout.micro_batch > 1),
        ("cut with tp or cp", lambda _: True),
    ),
    "reserve": (("take GPUs with more memory", lambda _: True),),
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

    @property
    def effort(self) -> tuple[int, ...]:
        """What there is to set up: axes, a context axis among them, and settings; less is easier."""
        layout = self.layout
        axes = sum(size > 1 for size in (layout.tp, layout.cp, layout.pp))
        settings = layout.sharding + layout.chunks + (layout.recompute != "none") + bool(layout.shard_size)
        return axes, layout.cp, settings


@dataclass(frozen=True)
class Refusal:
    """A layout that does not run, and why; ``memory`` where that is the reason."""

    layout: Layout
    why: str
    memory: MemoryParts | None = None

    @property
    def instead(self) -> str:
        """What would have to change, for one that does not fit; what it does already is left out."""
        if self.memory is None:
            return ""
        *others, last = (what for what, helps in _INSTEAD[_largest(self.memory)[0]] if helps(self.layout))
        return f"{', '.join(others)}, or {last}" if len(others) > 1 else " or ".join([*others, last])


@dataclass(frozen=True)
class Listing:
    """Options, the fastest first, and refusals."""

    job: Job
    cluster: ClusterSpec
    options: tuple[Option, ...]
    refusals: tuple[Refusal, ...]
    host: HostDoubt | None = field(default=None, compare=False, repr=False)  # None: as told

    def reach(self, layout: Layout, doubt: float) -> tuple[float, float]:
        """How many times as long as told a step of ``layout`` takes with a host ``doubt`` times faster and slower."""
        return (1.0, 1.0) if self.host is None else self.host.reach(layout, doubt)

    @property
    def best(self) -> Option | None:
        """The fastest; None where nothing runs."""
        return self.options[0] if self.options else None

    def tied(self, ratio: float) -> tuple[Option, ...]:
        """The options that take at most ``ratio`` times as long as the fastest, itself among them."""
        return tuple(one for one in self.options if one.step_s <= ratio * self.options[0].step_s)

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


def usable_bytes(cluster: ClusterSpec, memory_bytes: float | None = None) -> float:
    """What a plan may fill of a GPU's memory, in bytes; ``memory_bytes``: a limit below that."""
    return min(memory_bytes or cluster.memory_bytes, _FILLED * cluster.memory_bytes)


@checked
def list_layouts(
    job: Job,
    cluster: ClusterSpec,
    constants: Constants,
    software: Software,
    *,
    memory_bytes: float | None = None,
    layouts: Iterable[Layout] | None = None,
    offload: bool = False,
) -> Listing:
    """Every candidate (or those of ``layouts``), with memory and time, or with why not.

    ``memory_bytes``: a limit below what can be filled of a GPU's memory. ``offload``: optimizer states go to the
    host's.
    """
    limit_bytes = usable_bytes(cluster, memory_bytes)
    given = None if layouts is None else list(layouts)
    options, refusals, memo = [], [], Memo()
    with checked_before():  # what came in has been looked at; what the loop below makes of it is ours
        for layout in candidates(job, cluster, offload=offload) if given is None else given:
            if why := why_illegal(job, layout, cluster.gpus):
                refusals.append(Refusal(layout, why))
                continue
            memory = memory_parts(job, layout, cluster, constants, software, memo)
            if memory.total_bytes > limit_bytes:
                refusals.append(Refusal(layout, _why_too_large(memory, limit_bytes), memory))
            else:
                step = step_parts(job, layout, cluster, constants, software, memo)
                options.append(Option(layout, memory, step))
    options.sort(key=rank_of)
    return Listing(job, cluster, tuple(options), tuple(refusals), HostDoubt(job, cluster, constants, software))


def rank_of(option: Option) -> tuple[float, ...]:
    """Faster first; at the same time to three digits, fewer axes, then what is less to set, then less memory."""
    return (float(f"{option.step_s:.3g}"), *option.effort, option.memory.total_bytes)


def _largest(memory: MemoryParts) -> tuple[str, float]:
    sizes = {name.removesuffix("_bytes"): size for name, size in vars(memory).items()}
    name = max(sizes, key=lambda part: sizes[part])
    return name, sizes[name]


def _why_too_large(memory: MemoryParts, limit_bytes: float) -> str:
    """As "93.1 of 80.0 GB: activations 61.0"; with as many digits as tell the two apart."""
    name, size = _largest(memory)
    needed, limit = memory.total_bytes / _GB, limit_bytes / _GB
    digits = next((count for count in range(1, 6) if f"{needed:.{count}f}" != f"{limit:.{count}f}"), 6)
    return f"{needed:.{digits}f} of {limit:.{digits}f} GB: {name} {size / _GB:.1f}"
