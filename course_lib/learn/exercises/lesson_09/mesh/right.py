"""09.mesh: what is expected on each rank, as a report of the step's kind, and the judge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from course_lib.learn.catalogue.exercise import AnswerOutcome, Case, Evidence
from course_lib.learn.exercises.lesson_09.mesh.cases import ONE_RANK, SITUATIONS, oracle, part_at
from course_lib.learn.exercises.lesson_09.mesh.enough import SEEN, enough_bytes, enough_numbers, enough_written
from course_lib.learn.exercises.lesson_09.mesh.reports import MeshValuesReport
from course_lib.learn.exercises.lesson_09.mesh.trial import trial
from course_lib.learn.judging.judge import RankJudge
from course_lib.learn.judging.report import NOT_DEMANDED, compare

__all__ = ["MeshJudge", "mesh_judge"]


def _right(label: str, report: type[MeshValuesReport]) -> Callable[[int, int], MeshValuesReport]:
    situation = SITUATIONS[label]

    def expected(rank: int, world_size: int) -> MeshValuesReport:
        mesh, last = (situation.mesh(world_size, after=after) for after in (False, True))
        run = oracle(label)
        facts: dict[str, Any] = dict.fromkeys(SEEN, NOT_DEMANDED)
        facts |= {"begin": part_at(label, mesh, rank, run.begin), "end": part_at(label, last, rank, run.end)}
        facts |= {"losses": run.steps.losses, "norms": run.steps.norms}
        if situation.is_weighed:
            facts["held"] = enough_numbers(label, mesh, rank)
        if situation.is_counted:
            facts["sent"] = enough_bytes(label, mesh, rank)
        if situation.stop and situation.is_large:  # names and headers of many small files weigh more than small models
            facts["written"] = enough_written(label)
        return report.of(facts)

    return expected


@dataclass(frozen=True)
class MeshJudge(RankJudge):
    """Each case has an empty folder of its own. ``alone``: where all is right, one rank tries it, too."""

    alone: Case | None = None

    def __call__(self, answer: Any, forbidden: tuple[str, ...] = ()) -> Evidence:
        evidence = super().__call__(answer, forbidden)
        if self.alone is None or not evidence.passed:
            return evidence
        last = replace(self, world_sizes=(1,), cases=(self.alone,), alone=None, calls_again=False)(answer, forbidden)
        return replace(evidence, outcomes=evidence.outcomes + last.outcomes)

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

        cluster = shared_cluster(world_size)
        with folder_for_ranks(cluster) as folder, folder_for_ranks(cluster) as of_first:
            case = replace(case, args=(_label(case), folder))
            first = None if first is None else replace(first, args=(_label(first), of_first))
            return super()._try(answer, world_size, case, forbidden, called, breaches, first)


def _label(case: Case) -> str:
    """The situation's, also of a case that is tried again under a longer name."""
    assert isinstance(case.args, tuple)
    return case.args[0]


def mesh_judge(report: type[MeshValuesReport], *labels: str, with_one_rank: bool = False) -> MeshJudge:
    """The judge of a step: these situations on four ranks, looked at as this report says."""
    alone = Case(ONE_RANK, (ONE_RANK,), _right(ONE_RANK, report)) if with_one_rank else None
    cases = tuple(Case(label, (label,), _right(label, report)) for label in labels)
    return MeshJudge((4,), cases, compare, 10.0, trial, changes=True, makes_groups=True, alone=alone)
