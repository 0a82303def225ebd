"""What the plan explorer's controls choose, and what the planner says of it: a job on GPUs, and a cut of one's own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache

from course_lib.base.checks import at_least, at_most, known, nearest_divisor
from course_lib.cost.collectives.machines import MACHINES as ALL_MACHINES
from course_lib.plan import (
    ClusterSpec,
    Job,
    Layout,
    Listing,
    Option,
    Refusal,
    Software,
    cluster_of,
    decoder,
    list_layouts,
    typical_of_gpu,
)
from course_lib.plan.inputs.layout import RECOMPUTE

__all__ = [
    "BATCH",
    "GPUS",
    "MACHINES",
    "MODELS",
    "OWN",
    "SEQ",
    "OwnCut",
    "PlanChoice",
    "gpus_text",
]

MODELS = ("gpt-2-xl", "llama-3-8b", "llama-3-70b", "llama-3-405b", "mixtral-8x7b")
MACHINES = tuple(ALL_MACHINES)
GPUS, BATCH = (1, 4096), (1, 8192)  # the fewest and the most
SEQ = tuple(2**power for power in range(9, 18))
OWN = (1, 256)  # of each axis, and of a micro-batch


@dataclass(frozen=True)
class PlanChoice:
    """A model, a machine, GPUs, tokens a sequence, sequences a step. ``ValueError`` for GPUs that fill no machines."""

    model: str = "llama-3-8b"
    machine: str = "8x H100"
    gpus: int = 8
    seq: int = 8192
    batch: int = 64

    def __post_init__(self) -> None:
        known("model", self.model, MODELS)
        known("machine", self.machine, MACHINES)
        at_least(GPUS[0], gpus=self.gpus, batch=self.batch, seq=self.seq)
        at_most(GPUS[1], gpus=self.gpus)
        at_most(BATCH[1], batch=self.batch)
        known("seq", str(self.seq), map(str, SEQ))
        _ = self.cluster  # GPUs that are no whole machines are told at once

    @cached_property
    def job(self) -> Job:
        """For the planner."""
        return Job(decoder(self.model), self.seq, self.batch)

    @cached_property
    def cluster(self) -> ClusterSpec:
        """For the planner."""
        return cluster_of(self.machine, gpus=self.gpus)

    def ask(self, layouts: Iterable[Layout]) -> Listing:
        """What the planner says of these layouts."""
        constants = _constants(self.cluster.peak_flops_per_s, self.cluster.memory_bandwidth_bytes_per_s)
        return list_layouts(self.job, self.cluster, constants, Software(), layouts=layouts)

    def share_of_peak(self, option: Option) -> float:
        """Of the GPUs' arithmetic, what the model's own FLOPs use: recomputation does not count."""
        flops = self.job.tokens * 3 * self.job.model.forward_flops(self.seq, causal=True)
        return flops / (option.step_s * self.gpus * self.cluster.peak_flops_per_s)

    def __str__(self) -> str:
        sequences = "1 sequence" if self.batch == 1 else f"{self.batch:,} sequences"
        return f"{self.model}, {sequences} of {self.seq:,} tokens a step, {gpus_text(self.gpus)} of {self.machine}"


@dataclass(frozen=True)
class OwnCut:
    """A layout of the learner's own, but for the data axis: its ranks are those that the other axes leave."""

    tp: int = 1
    cp: int = 1
    pp: int = 1
    ep: int = 1
    micro_batch: int = 1
    sharding: int = 3
    recompute: str = "full"

    def __post_init__(self) -> None:
        sizes = {"tp": self.tp, "cp": self.cp, "pp": self.pp, "ep": self.ep, "micro_batch": self.micro_batch}
        at_least(OWN[0], **sizes)
        at_most(OWN[1], **sizes)
        at_least(0, sharding=self.sharding)
        at_most(3, sharding=self.sharding)
        known("recompute", self.recompute, RECOMPUTE)

    @classmethod
    def of(cls, layout: Layout) -> OwnCut:
        """As a layout of the planner has it."""
        names = ("tp", "cp", "pp", "ep", "micro_batch", "sharding", "recompute")
        return cls(**{name: getattr(layout, name) for name in names})

    def layout(self, gpus: int) -> Layout:
        """On so many GPUs. ``ValueError`` names the first axis that does not divide what is left of them."""
        left, taken = gpus, ""
        for name in ("tp", "pp", "cp"):
            size = getattr(self, name)
            if left % size:
                what = f"the {gpus_text(left)} that {taken.strip()} leaves" if taken else gpus_text(gpus)
                nearest = nearest_divisor(size, left)
                raise ValueError(f"{name}={size} does not divide {what}: the nearest is {nearest}")
            left //= size
            taken += f"{name}{size} " if size > 1 else ""
        return Layout(
            tp=self.tp,
            cp=self.cp,
            pp=self.pp,
            dp=left,
            ep=self.ep,
            micro_batch=self.micro_batch,
            sharding=self.sharding,
            sequence_parallel=self.tp > 1,
            recompute=self.recompute,
        )

    def judged(self, choice: PlanChoice) -> Option | Refusal:
        """What the planner says of it for a job: its memory and time, or why not. ``ValueError`` as ``layout``."""
        found = choice.ask([self.layout(choice.gpus)])
        return found.options[0] if found.options else found.refusals[0]


def gpus_text(number: int) -> str:
    """As "1 GPU" or "8 GPUs"."""
    return "1 GPU" if number == 1 else f"{number:,} GPUs"


_constants = lru_cache(maxsize=8)(typical_of_gpu)  # asked of hundreds of choices in a redraw
