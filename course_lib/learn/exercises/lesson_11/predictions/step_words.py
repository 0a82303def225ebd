"""The parts of a step in the words of lesson 11's reveals."""

from __future__ import annotations

from dataclasses import asdict

from course_lib.plan import StepParts
from course_lib.plan.runs.replayed import Replayed

__all__ = ["largest_parts", "parts_of"]

_IN_WORDS = {
    "compute_s": "computing",
    "output_s": "the output layer",
    "host_s": "GPUs that wait for the host to issue work",
    "tensor_s": "collectives of the tensor axis",
    "context_s": "the ring of the context axis",
    "expert_s": "the all-to-alls of experts",
    "pipeline_s": "messages between stages",
    "bubble_s": "the bubble",
    "data_s": "what the data axis sends and cannot hide",
    "optimizer_s": "the optimizer's step",
}


def largest_parts(parts: StepParts, count: int) -> str:
    """The largest parts of a step in words: "61% computing, 21% the bubble"."""
    sizes = sorted(asdict(parts).items(), key=lambda item: -item[1])[:count]
    named = [f"{size / parts.total_s:.0%} {_IN_WORDS[name]}" for name, size in sizes if size > 0]
    return named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"


def parts_of(run: Replayed) -> StepParts:
    """What the planner says of a published run, with the constants of its cluster."""
    return run.of.parts(run.of.profile.constants)
