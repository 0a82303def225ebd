"""12.job: what is expected in each situation, and the judge, which lets a job live on several numbers of ranks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from course_lib.cost.data_parallel.sharded import shared_numel
from course_lib.learn.catalogue.exercise import AnswerOutcome, Case
from course_lib.learn.exercises.lesson_12.job.cases import SITUATIONS, oracle
from course_lib.learn.exercises.lesson_12.job.reports import FINE, JobReport, blank
from course_lib.learn.exercises.lesson_12.job.trial import trial
from course_lib.learn.judging.judge import RankJudge
from course_lib.learn.judging.report import NOTHING, compare

__all__ = ["JobJudge", "job_judge"]

_SMALL = 16 * 1024  # bytes: names and numbers of a file, or of a few messages
_FINE_IN = {
    "samples": ("shares",),
    "resume": ("again",),
    "torn": ("again", "stored"),
    "other": ("again",),
    "cost": ("again", "told"),
    "empty": ("again",),
    "damaged": ("again", "said"),
    "foreign": ("again", "strangers"),
    "two": ("again",),
}


def _right(label: str) -> Callable[[int, int], JobReport]:
    situation = SITUATIONS[label]

    def expected(rank: int, world_size: int) -> JobReport:
        facts: dict[str, Any] = dict.fromkeys(_FINE_IN.get(situation.kind, ()), FINE)
        if situation.kind in ("plain", "samples"):
            whole = oracle(label, 0, situation.until)
            facts |= {"losses": whole.losses, "weights": whole.weights}
        if situation.kind == "cost":
            model = situation.made()[0]
            num = sum(one.numel() for one in model.parameters())
            part = shared_numel([tuple(one.shape) for one in model.parameters()], world_size)
            facts |= {
                "step_sent": 2 * (world_size - 1) * part * 8 + 1024,
                "sent": _SMALL,
                "written": 3 * num * 8 + _SMALL,
                "others": NOTHING,
            }
        return blank(**facts)

    return expected


def _right_before(label: str) -> Callable[[int, int], JobReport]:
    situation = SITUATIONS[label]
    run = oracle(label, 0, situation.stops[-1])
    return lambda rank, world_size: blank(losses=run.losses, weights=run.weights)


@dataclass(frozen=True)
class JobJudge(RankJudge):
    """Each case has a folder of its own, and what was done there before on another number of ranks.

    What earlier steps of the build demand is tried on the largest number of ranks alone, where shares can be uneven.
    """

    new: frozenset[str] = frozenset()  # cases that no earlier step has

    def _try(
        self,
        answer: Any,
        world_size: int,
        case: Case,
        forbidden: tuple[str, ...],
        called: set[str],
        breaches: dict[str, str],
        first: Case | None = None,
    ) -> tuple[list[AnswerOutcome], str]:
        from course_lib.cluster import folder_for_ranks, shared_cluster

        with (
            folder_for_ranks(shared_cluster(world_size)) as folder,
            folder_for_ranks(shared_cluster(world_size)) as of_first,
        ):
            label = _label(case)
            if label not in self.new and world_size != max(self.world_sizes):
                return [AnswerOutcome(label, None, kind=label, num_ranks=world_size)], ""
            before = SITUATIONS[label].other(world_size)
            if before != world_size:
                earlier = replace(case, args=(label, folder, True), expected=_right_before(label))
                found = super()._try(answer, before, earlier, forbidden, called, breaches)
                if found[1] or not all(one.right for one in found[0]):
                    return found
            case = replace(case, args=(label, folder))
            first = None if first is None else replace(first, args=(_label(first), of_first))
            return super()._try(answer, world_size, case, forbidden, called, breaches, first)


def _label(case: Case) -> str:
    """The situation's, also of a case that is tried again under a longer name."""
    assert isinstance(case.args, tuple)
    return case.args[0]


def job_judge(world_sizes: tuple[int, ...], labels: tuple[str, ...], earlier: tuple[str, ...] = ()) -> JobJudge:
    """The judge of a step: these situations on these numbers of ranks, and those of earlier steps on the largest."""
    cases = tuple(Case(label, (label,), _right(label)) for label in (*earlier, *labels))
    return JobJudge(world_sizes, cases, compare, 8.0, trial, changes=True, new=frozenset(labels))
