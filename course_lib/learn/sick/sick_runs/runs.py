"""See a run, change one setting of it, and be told what that gained of what could be gained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from course_lib.base.checks import known
from course_lib.cluster.api.cluster import Cluster
from course_lib.learn.sick.sick_runs.cases import CASES, HEALTHY, SickCase
from course_lib.learn.sick.sick_runs.evidence import RunEvidence, evidence_of, is_steady
from course_lib.learn.sick.sick_runs.job import LINKS, MIB
from course_lib.learn.sick.sick_runs.program import SickStepRecord, train
from course_lib.learn.sick.sick_runs.settings import MEANING, Settings, changed, legal_values

__all__ = ["Change", "SickRuns"]

_RANKS = 4
_STEPS = 3
_TRIES = 2  # more steps where these differ: the machine was busy
_CHANCE = 0.04  # of the time before: a smaller difference says nothing
_NEAR = 1.1  # times the best known: better still, as good, or was that one measured in a busy moment?
_COSTS = 1.1  # times the time before: what is called a loss; on a busy machine chance can be that much
_ENOUGH = 0.8  # of what could be gained
_CLEAR = 0.95  # of the time before: what the best change must reach, for a score to mean something


@dataclass(frozen=True)
class Change:
    """What one change has made of a run.

    ``gained`` is None where nothing was changed, and where not even the best change has gained: the machine was busy.
    """

    name: str
    words: str  # "buckets=4 -> 8", or what can be set
    before_s: float
    after: RunEvidence | None = None
    best_s: float | None = None
    told_s: float = 0.0  # the time before as it was seen first; ``before_s`` may have been measured again

    @property
    def gained(self) -> float | None:
        """Of the time that the best single change saves, the share that this one saves; below 0 where it costs.

        0 where it makes no more difference than chance does.
        """
        if self.after is None or self.best_s is None or self.best_s > _CLEAR * self.before_s:
            return None
        saved_s = self.before_s - self.after.step_s
        return 0.0 if abs(saved_s) < _CHANCE * self.before_s else saved_s / (self.before_s - self.best_s)

    @property
    def score(self) -> int:
        """From 0 to 100."""
        return 0 if self.gained is None else round(100 * min(1.0, max(0.0, self.gained)))

    def __repr__(self) -> str:
        if self.after is None or self.best_s is None:
            return self.words
        before, after, best = (1e3 * time_s for time_s in (self.before_s, self.after.step_s, self.best_s))
        changed_to = f"run {self.name} with {self.words}: {before:.0f} ms -> {after:.0f} ms."
        if self.told_s > (1 + _CHANCE) * self.before_s:
            changed_to += f"\n(Seen before: {1e3 * self.told_s:.0f} ms, in a busy moment; it was measured again.)"
        if self.gained is None:
            return (
                f"{changed_to}\nThe best change known has "
                "gained nothing either just now: the machine was busy. Run the cell again; all is measured anew."
            )
        said = f"Score {self.score} of 100: {self._verdict}."
        return f"{changed_to}\nThe best single change reaches {best:.0f} ms. {said}"

    @property
    def _verdict(self) -> str:
        if self.score >= 100 * _ENOUGH:
            return "that is it"
        if self.score:
            return "another change gains more"
        if self.after is not None and self.after.step_s > _COSTS * self.before_s:
            return "this costs time, and another change gains"
        return "no more than chance, and another change gains"


class SickRuns:
    """The six runs on a cluster of four ranks, which compute on the CPU.

    ``evidence("A")`` runs A as it is; "0" is a healthy run. ``change("A")`` says what can be set,
    ``change("A", buckets=8)`` runs it with that change. ``ValueError`` for a run that is not there, and for any change
    but one legal one, and for any change of "0".
    """

    def __init__(self, cluster: Cluster) -> None:
        if cluster.world_size != _RANKS:
            raise ValueError(
                f"the runs are for {_RANKS} ranks, and this cluster has {cluster.world_size}; give it "
                f"shared_cluster({_RANKS})"
            )
        self._cluster = cluster
        self._seen: dict[tuple[str, Settings], RunEvidence] = {}
        self._last: dict[str, Change] = {}

    def evidence(self, name: str) -> RunEvidence:
        """The run as it is; run anew at each call."""
        case = _case(name)
        return self._run(case, case.settings)

    def change(self, name: str, **one: Any) -> Change:
        """The run with one setting changed, or, with none, what can be set."""
        case = _case(name)
        if not case.best:
            raise ValueError(
                f"run {name} is in good health, and nothing of it is changed; change one of {', '.join(CASES)}"
            )
        before = self._seen.get((case.name, case.settings)) or self.evidence(name)
        if not one:
            return Change(name, _settings_text(case), before.step_s)
        settings = changed(case.settings, case.job.num_rows, **one)
        best_settings = changed(case.settings, case.job.num_rows, **case.best)
        told_s = before.step_s
        before, after, best = self._measured(case, before, settings, best_settings)
        setting = next(iter(one))
        words = f"{setting}={getattr(case.settings, setting)!r} -> {getattr(settings, setting)!r}"
        found = Change(name, words, before.step_s, after, min(best.step_s, after.step_s), told_s)
        if found.gained is None:
            for seen in (case.settings, best_settings):
                self._seen.pop((case.name, seen), None)
        else:
            self._last[name] = found
        return found

    def _measured(
        self, case: SickCase, before: RunEvidence, settings: Settings, best_settings: Settings
    ) -> tuple[RunEvidence, RunEvidence, RunEvidence]:
        """Before, after and the best known. Whichever seems slow may have met a busy moment, and is run once more."""
        best = self._seen.get((case.name, best_settings)) or self._run(case, best_settings)
        if settings == best_settings:
            return before, best, best
        after = self._run(case, settings)
        if after.step_s < (1 - _CHANCE) * before.step_s:
            before = self._quicker(case, case.settings, before)
        elif after.step_s > (1 + _CHANCE) * before.step_s:
            after = self._quicker(case, settings, after)
        if after.step_s < _NEAR * best.step_s:
            best = self._quicker(case, best_settings, best)
        return before, after, best

    def _quicker(self, case: SickCase, settings: Settings, seen: RunEvidence) -> RunEvidence:
        """The quicker of what was seen and the same run once more; it is kept."""
        quicker = min(seen, self._run(case, settings), key=lambda one: one.step_s)
        self._seen[case.name, settings] = quicker
        return quicker

    def scores(self) -> str:
        """A line for each run that was changed, by its last change, and the mean over all six."""
        lines = [
            f"run {name}: {self._last[name].score:>3} of 100, by {self._last[name].words}"
            for name in CASES
            if name in self._last
        ]
        mean = sum(change.score for change in self._last.values()) / len(CASES)
        return "\n".join([*lines, f"{len(self._last)} of {len(CASES)} runs changed; in all {mean:.0f} of 100"])

    def _run(self, case: SickCase, settings: Settings) -> RunEvidence:
        slow = {rank: factor for rank, factor in case.job.slow if rank != settings.spare_for}
        by_rank: list[list[SickStepRecord]] = [[] for _ in range(_RANKS)]
        with self._cluster.shaped(links=LINKS, slow=slow):
            for _ in range(_TRIES):
                more = self._cluster.run(train, case.job, settings, _STEPS)
                by_rank = [[*kept, *new] for kept, new in zip(by_rank, more, strict=True)]
                if is_steady(by_rank):
                    break
        self._seen[case.name, settings] = evidence_of(case.name, case.job, by_rank)
        return self._seen[case.name, settings]


def _case(name: str) -> SickCase:
    if name == HEALTHY.name:
        return HEALTHY
    return CASES[known("run", name, tuple(CASES))]


def _settings_text(case: SickCase) -> str:
    legal = legal_values(case.settings, case.job.num_rows)
    lines = [f"run {case.name} can be changed in one of these:"]
    for name, values in legal.items():
        rest = [repr(value) for value in values if value != getattr(case.settings, name)]
        others = ", ".join(rest) or "nothing else"
        lines.append(f"  {name} = {getattr(case.settings, name)!r}, or {others}\n      {MEANING[name]}")
    return "\n".join(lines) + f"\na device has {case.job.device_bytes / MIB:.0f} MiB"
