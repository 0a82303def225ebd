"""Memory that a rank holds past its tensors, by what was seen on it: by Python, by the system, and by its own group.

``held.beside`` is exact. C's heap and resident memory have a noise (``system_memory.py``), so what is told of them is
above all that honest runs were seen to have, and it must be there after every step of a kind. What is below is not
judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from course_lib.capstone.jobs.result import Fault
from course_lib.capstone.running.steps import RankRecord, StepRecord
from course_lib.meter.units import bytes_text

__all__ = ["FEW_BYTES", "hidden_memory"]

FEW_BYTES = 16 * 1024  # of arrays and texts: a list of losses is no hidden memory
_FEW_SHARED_BYTES = 256 * 1024  # of a group: what a rank prints may lie in a file in memory
_HEAP_BYTES = 2 << 20  # of C's heap past the tensors: below, it may be a library's
_RESIDENT_BYTES = 16 << 20  # past the heap's own noise, that of Python's and C's pages
_MODULE_HEAP_BYTES, _MODULE_RESIDENT_BYTES = 1 << 18, 1 << 20  # for each module that a library has brought


def hidden_memory(memory_bytes: int, ranks: Sequence[RankRecord]) -> Iterator[Fault]:
    """All that was seen. ``memory_bytes``: what a rank may hold."""
    for number, one in enumerate(ranks):
        for sentence in (*_beside_tensors(one), *_by_system(memory_bytes, one)):
            yield Fault("hidden memory", f"rank {number} {sentence}.")


def _beside_tensors(one: RankRecord) -> Iterator[str]:
    for kind, size in _most(step.holds.raw_bytes for step in one.steps).items():
        if size >= FEW_BYTES:
            yield f"holds {bytes_text(size)} in objects of type {kind}"
    yield from (note for note in one.notes if note.startswith(("writes", "maps", "keeps", "calls", "opens the")))
    weighed = [step.holds.tensor_bytes for step in one.steps[1:] if step.peak is not None]
    others = [step.holds.tensor_bytes for step in one.steps[1:] if step.peak is None]
    if weighed and others and max(others) > max(weighed) + FEW_BYTES:
        yield f"holds {bytes_text(max(weighed))} after a weighed step, and {bytes_text(max(others))} after others"


def _by_system(memory_bytes: int, one: RankRecord) -> Iterator[str]:
    children = sorted({child for step in one.steps for child in step.holds.held.children})
    if children:
        yield f"has started the process {', '.join(children)}"
    elif any(step.group_others for step in one.steps):
        yield "is not alone in its group: the group holds another process that does not descend from the rank"
    beside = _most(step.holds.held.beside for step in one.steps)
    shared_bytes = max(step.holds.shared_bytes for step in one.steps)  # told of tensors already
    for kind, size in beside.items():
        if size >= FEW_BYTES and not (kind == "shared memory" and shared_bytes >= FEW_BYTES):
            yield f"holds {bytes_text(size)} in {kind}, by the system's count"
    in_group = max((step.group_shared_bytes for step in one.steps), default=0) - shared_bytes
    if in_group >= _FEW_SHARED_BYTES and not beside:
        yield f"has {bytes_text(in_group)} in files in memory or in shared memory, by the system's count for its group"
    yield from _past_tensors(memory_bytes, one)


def _past_tensors(memory_bytes: int, one: RankRecord) -> Iterator[str]:
    """What no tensor explains, after every step."""
    graph_bytes = max((step.kept_bytes - step.holds.tensor_bytes for step in one.steps if step.peak), default=0)
    modules = max(step.holds.held.new_modules for step in one.steps)
    for weighed, which in ((True, "every step that is weighed"), (False, "every step that is timed")):
        steps = [step for step in one.steps if (step.peak is not None) == weighed]
        heaps = [heap for step in steps if (heap := _unexplained(step, max(0, graph_bytes))) is not None]
        if heaps and min(heaps) >= _HEAP_BYTES + modules * _MODULE_HEAP_BYTES:
            yield f"has {bytes_text(min(heaps))} of C's heap outside tensors, after {which}"
            return
    least = _RESIDENT_BYTES + memory_bytes + modules * _MODULE_RESIDENT_BYTES
    resident = [size for step in one.steps if (size := step.holds.held.resident_bytes) is not None]
    peaks = [step.group_peak_bytes for step in one.steps[1:] if step.group_peak_bytes is not None]
    if resident and min(resident) >= least:
        yield f"has grown by {bytes_text(min(resident))}, and may hold {bytes_text(memory_bytes)}"
    elif peaks and min(peaks) >= least:
        grown = f"grows by {bytes_text(min(peaks))} in a step, by its group's count"
        yield f"{grown}, and may hold {bytes_text(memory_bytes)}"


def _unexplained(step: StepRecord, graph_bytes: int) -> int | None:
    heap = step.holds.held.heap_bytes
    return None if heap is None else heap - step.holds.heap_bytes - graph_bytes


def _most(found: Iterator[Mapping[str, int]]) -> dict[str, int]:
    """Of each kind, over all steps."""
    most: dict[str, int] = {}
    for one in found:
        for kind, size in one.items():
            most[kind] = max(size, most.get(kind, 0))
    return most
