"""``settle("A4", "A6")``: run the trials of claims, and put each verdict with its numbers beside the bet."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

from course_lib.forms.show import Shown, panel, paragraph, show, table
from course_lib.learn.records.bet_records import Bet, BetStatus, is_own, mark, note_trial

if TYPE_CHECKING:
    from course_lib.claims import Evidence, Ranks, Trial

__all__ = ["Settled", "SettledClaim", "settle"]

_WORDS = {1.0: "✓ right", 0.5: "≈ near", 0.0: "✗ not so"}


@dataclass(frozen=True)
class SettledClaim:
    """One claim: the bet that was there before its trial, what the trial found, and where the two part, why."""

    name: str
    text: str
    article: str
    bet: Bet | None
    evidence: Evidence
    seen_before: str = ""  # the verdict that had settled it earlier

    @property
    def mark(self) -> float | None:
        if self.bet is None or self.evidence.is_blocked:
            return None
        return mark(self.bet.verdict, self.evidence.verdict)

    @property
    def outcome(self) -> str:
        """Right, near or not; and what there is to say without a bet."""
        if self.mark is not None:
            return _WORDS[self.mark]
        if self.evidence.is_blocked:
            return "stays open" if not self.seen_before else "not told this time"
        return "no bet"

    @property
    def misreading(self) -> str:
        """Where bet and verdict part, a sentence; else nothing."""
        # With its room, not needed before.
        from course_lib.learn.exercises.lesson_13.misreadings import parted

        if self.bet is None or self.mark in (None, 1.0):
            return ""
        return parted(self.name, self.bet.verdict, self.evidence.verdict)

    def sentences(self) -> list[str]:
        """What is told of it, without the numbers."""
        because = _stopped(f"{self.evidence.verdict}: {self.evidence.because}")
        turns = _stopped(f"It would turn if {self.evidence.turns_if}") if self.evidence.turns_if else ""
        other = self.seen_before not in ("", self.evidence.verdict) and not self.evidence.is_blocked
        counts = "" if is_own(self.name) else " That one counts on the board."
        before = f"An earlier run said: {self.seen_before}.{counts}" if other else ""
        return [text for text in (because, self.misreading, turns, before) if text]

    def numbers(self) -> list[list[str]]:
        """Name and value of each number that the trial brought back."""
        found = {**self.evidence.facts, **self.evidence.timings}
        return [[key, "; ".join(line.strip() for line in str(value).splitlines())] for key, value in found.items()]


def _stopped(text: str) -> str:
    """With a full stop at its end, where there is none."""
    return text if text.endswith((".", ".)")) else f"{text}."


@dataclass(frozen=True, repr=False)
class Settled(Shown):
    """Some claims, each with its bet, verdict, numbers and turning point."""

    claims: tuple[SettledClaim, ...]

    def evidence(self, name: str) -> Evidence:
        """What the trial of this claim brought back."""
        for one in self.claims:
            if one.name == name:
                return one.evidence
        raise ValueError(f"{name!r} was not settled here; there are {', '.join(one.name for one in self.claims)}")

    def _summary(self) -> list[list[str]]:
        return [
            [one.name, str(one.bet) if one.bet else "none", one.evidence.verdict, one.outcome] for one in self.claims
        ]

    def sources(self) -> list[str]:
        """Who says these sentences, each once."""
        names: dict[str, list[str]] = {}
        for one in self.claims:
            names.setdefault(one.article, []).append(one.name)
        return [
            f"{', '.join(of_it)}: {article if is_own(of_it[0]) else f'in our words, after: {article}'}"
            for article, of_it in names.items()
        ]

    def __repr__(self) -> str:
        lines = [
            f"{name:<4} bet: {bet:<27} trial: {verdict:<22} {mark}" for name, bet, verdict, mark in self._summary()
        ]
        lines += self.sources()
        for one in self.claims:
            lines += ["", textwrap.fill(f"{one.name}  {one.text}", 100)]
            lines += [textwrap.fill(text, 100, initial_indent="  ", subsequent_indent="  ") for text in one.sentences()]
            width = max((len(key) for key, _ in one.numbers()), default=0)
            lines += [f"    {key:<{width}}  {value}" for key, value in one.numbers()]
        return "\n".join(lines)

    def _html(self) -> str:
        head = ["", "your bet", "the trial", ""]
        body = table(head, self._summary()) if len(self.claims) > 1 else ""
        body += "".join(map(paragraph, self.sources()))
        for one in self.claims:
            verdict, *more = one.sentences()
            verdict = verdict.replace(one.evidence.verdict, f"*{one.evidence.verdict}*", 1)
            told = "".join(map(paragraph, [verdict, *more]))
            numbers = table(["", ""], one.numbers()) if one.numbers() else ""
            beside = f"{one.outcome}, bet {one.bet}" if one.bet else one.outcome
            body += panel(_edge(one), f"{one.name} ({beside}): {one.text}", told + numbers)
        return panel("quiet", "", body)


def _edge(one: SettledClaim) -> str:
    return "quiet" if one.mark is None else "good" if one.mark == 1 else "info" if one.mark else "bad"


def settle(*names: str, ranks: Ranks | None = None) -> Settled:
    """Run the trials of these claims here and now; shows and returns what came, each beside its bet.

    The first verdict that is none of "cannot tell here" settles a bet. ``ranks(n)`` lends the clusters.

    Raises ``ValueError`` for a name that no claim has, with the nearest one, before anything runs.
    """
    from course_lib.claims import trial  # they import torch

    if not names:
        raise ValueError('name the claims whose trials are to run, such as settle("A4", "A6")')
    if len(set(map(str, names))) < len(names):
        raise ValueError(f"settle each claim once; got {', '.join(map(str, names))}")
    found = [_settled(one, ranks) for one in [trial(name) for name in names]]
    settled = Settled(tuple(found))
    show(settled)
    return settled


def _settled(one: Trial, ranks: Ranks | None) -> SettledClaim:
    """Run one trial, and keep what it said before the next one begins."""
    claim, evidence = one.claim, one.run(ranks) if ranks else one.run()
    text = claim.text if is_own(claim.name) else ""
    before: BetStatus = note_trial(claim.name, evidence.verdict, is_blocked=evidence.is_blocked, text=text)
    return SettledClaim(claim.name, claim.text, claim.article, before.bet, evidence, before.verdict)
