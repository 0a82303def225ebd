"""What an attempt has come to: values, memory, bytes and time, each beside what it is held against, and the points.

Plain data: a report draws it, a board lists it, and ``attempt`` makes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from course_lib.capstone.jobs.job import CapstoneJob
from course_lib.layouts.mesh import Mesh
from course_lib.meter.clocks.timeline import Timeline
from course_lib.meter.units import bytes_text, time_text

__all__ = ["LOSS_SHARE", "Fault", "Known", "PartPoints", "RanCode", "RankMemory", "Result", "Sent", "Values"]

_UNTOLD = "a mesh that the result names once a run of yours passes"
LOSS_SHARE = 1e-4  # of a loss: what float32 and another order of adding may make of it


@dataclass(frozen=True)
class Values:
    """The whole model after all steps, held against one device in float64.

    ``moved``: how far the weight went that training moved the most. A difference counts as a share of that, and
    ``tolerance`` is the largest share that float32 may make.
    """

    largest_difference: float  # of any weight
    moved: float
    tolerance: float
    where: str  # the name of the parameter with the largest difference
    losses: tuple[float, ...]  # of each step, as rank 0 told them
    expected_losses: tuple[float, ...]
    told_by_ranks: tuple[tuple[float, ...], ...] = ()  # the same as each rank told them

    @property
    def share(self) -> float:
        """The largest difference over the largest movement."""
        return self.largest_difference / self.moved

    @property
    def are_equal(self) -> bool:
        """Whether the weights are those of one device. False for NaN, too."""
        return self.share <= self.tolerance

    @property
    def wrong_loss(self) -> str:
        """A sentence about the first loss that is told and is not one device's; empty where all are."""
        for rank, losses in enumerate(self.told_by_ranks or (self.losses,)):
            for number, (told, right) in enumerate(zip(losses, self.expected_losses, strict=False)):
                if not abs(told - right) <= LOSS_SHARE * abs(right):  # NaN, too
                    one_device = f"one device has {right:.5g}"
                    return f"rank {rank} reports a loss of {told:.5g} in step {number + 1}, and {one_device}"
        return ""


@dataclass(frozen=True)
class RankMemory:
    """The most that a rank held in a step, and what that was: bytes by the memory ledger's labels."""

    rank: int
    peak_bytes: int
    parts: Mapping[str, int]


@dataclass(frozen=True)
class Sent:
    """What all ranks together sent in a step."""

    by_axis: Mapping[str, int]  # an axis of the run's mesh, else "groups of 2"; "loss": among all ranks
    within_bytes: int  # to ranks of the same node
    between_bytes: int  # to ranks of the other node
    matrix: tuple[tuple[int, ...], ...]  # [from][to]


@dataclass(frozen=True)
class Known:
    """A step to be held against: of which mesh, how long, what it sent between nodes, and how that is known."""

    mesh: str
    step_s: float
    between_bytes: int
    source: str  # "played by the planner", "run on 22 November 2026", "run here"


@dataclass(frozen=True)
class Fault:
    """A rule that an attempt has broken: its name, and what was seen."""

    name: str  # of course_lib.capstone.attempts.rule_violations.FAULTS
    sentence: str


@dataclass(frozen=True)
class RanCode:
    """A function that ran on some rank, and whose it is: "yours", "the course's", "PyTorch's".

    ``lines``: of yours, those that ran, of ``num_lines``. ``called``: from which line of yours another's was called.
    ``copy_of``: the course's function that does the same, step by step.
    """

    whose: str
    name: str
    file: str
    lines: tuple[int, ...] = ()
    num_lines: int = 0
    called: str = ""
    copy_of: str = ""


@dataclass(frozen=True)
class PartPoints:
    """Points of a part, of how many, and why."""

    part: str  # "values", "peak memory", "bytes", "step time"
    points: int
    most: int
    why: str


@dataclass(frozen=True, repr=False)
class Result:
    """An attempt at a job. ``ended`` says in a sentence why the run did not come to its end; empty where it did.

    What was not seen is None or empty: a run that was ended has neither values nor times.
    """

    job: CapstoneJob
    words: str  # the mesh of the run, or how its maker calls it
    planned: Known  # the planner's best
    real: Known | None  # the best that a search of real runs found; None where nobody has searched
    points: tuple[PartPoints, ...]
    ended: str = ""
    faults: tuple[Fault, ...] = ()
    values: Values | None = None
    memory: tuple[RankMemory, ...] = ()
    sent: Sent | None = None
    steps_s: tuple[float, ...] = ()  # of the steps that were timed, the slowest rank
    timeline: Timeline | None = None  # of the shortest of them
    planned_run: Known | None = None  # the planner's best, run for real; None where nobody has searched
    mesh: Mesh | None = None  # of the run, where it has said so
    computed: float = 1.0  # by all ranks in a step: how often each sequence went through each block and back
    story: str = ""  # of a run that failed: what happened on which rank, with its lines
    paced_s: float | None = None  # a step without the machine's own time; None where that cannot be told
    code: tuple[RanCode, ...] = ()  # what ran on the ranks: the learner's, and strategies of others
    batch_seed: int | None = None  # where the attempt has drawn its own batch
    best: Known | None = None  # what points are given by: the mesh of ``real``, or the one expected to be best, played

    @property
    def total(self) -> int:
        """Points of 100."""
        return sum(part.points for part in self.points)

    @property
    def step_s(self) -> float | None:
        """The shortest step by the clock: a busy machine makes steps longer, and shaped links and paced computing let
        none be shorter.
        """
        return min(self.steps_s, default=None)

    @property
    def counted_s(self) -> float | None:
        """The step that counts: what its ranks computed, sent and waited for, played again (``replay.py``). A busy
        machine does not change it. Where it cannot be told, the shortest by the clock.
        """
        return self.step_s if self.paced_s is None else self.paced_s

    @property
    def peak_bytes(self) -> int | None:
        """Of the fullest rank."""
        return max((rank.peak_bytes for rank in self.memory), default=None)

    @property
    def is_right(self) -> bool:
        """Whether the run came to its end, by the rules, with the weights of one device; however long it took."""
        return not self.ended and not self.faults and self.values is not None and self.values.are_equal

    @property
    def passed(self) -> bool:
        """Whether the run came to its end, by the rules, with the right weights and losses, and within its budget of
        time.
        """
        is_right = self.is_right and self.values is not None and not self.values.wrong_loss
        return is_right and self.counted_s is not None and self.counted_s <= self.job.budget_s

    def as_told(self) -> Result:
        """From level 2 on without the names of meshes that would be an answer, until a run passes."""
        if self.job.level == 1 or self.passed:
            return self
        known = (self.planned, self.planned_run, self.real, self.best)
        planned, planned_run, real, best = (one and replace(one, mesh=_UNTOLD) for one in known)
        return replace(self, planned=planned or self.planned, planned_run=planned_run, real=real, best=best)

    def __str__(self) -> str:
        head = f"level {self.job.level}, seed {self.job.seed}, {self.words}: {self.total} points of 100"
        lines = [head, *([f"  ended: {self.ended}"] if self.ended else [])]
        lines += [f"  {fault.name}: {fault.sentence}" for fault in self.faults]
        lines += [f"  {part.part:<12} {part.points:>3} of {part.most:<3} {part.why}" for part in self.points]
        lines.append(f"  planner's best: {_known(self.planned)}")
        if self.planned_run:
            lines.append(f"  the same, run: {_known(self.planned_run, ' by the clock')}")
        best = _known(self.real, " by the clock") if self.real else "unknown: nobody has searched this job yet"
        lines.append(f"  best real run: {best}")
        return "\n".join([*lines, *(["", self.story] if self.story else [])])

    __repr__ = __str__


def _known(one: Known, by: str = "") -> str:
    between = f"{bytes_text(one.between_bytes)} between nodes"
    return f"{one.mesh}, {time_text(one.step_s)} a step{by}, {between} ({one.source})"
