"""A trial: code that puts one claim to the test, and the evidence that it brings back.

A trial is a function. It runs what the claim speaks of, looks at the numbers, and lets *them* decide::

    @tries("C5")
    def seeds_alone_do_not_share_out(ranks: Ranks) -> Evidence:
        batches = ranks(2).run(first_batches)
        same = batches[0] == batches[1]
        return Evidence(
            "holds" if same else "false", {"batches that are the same": ...}, because="...", turns_if="..."
        )

``ranks(n)`` gives a cluster of n ranks. What cannot be tried on this machine comes back as *cannot tell here*, with
the reason.
"""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from course_lib.claims.court.catalogue import CLAIMS, Claim
from course_lib.cluster.api.cluster import Cluster
from course_lib.cluster.api.shared import shared_cluster
from course_lib.cluster.links.links import Links
from course_lib.devices import machine

__all__ = ["VERDICTS", "Evidence", "Ranks", "Trial", "blocked", "tries"]

VERDICTS = ("holds", "holds with conditions", "misleading", "false")
_BLOCKED = "cannot tell here"
_NEEDS = {"cpu": 0, "gpu1": 1, "gpus": 2}  # GPUs

Ranks = Callable[[int], Cluster]


@dataclass(frozen=True)
class Evidence:
    """What a trial found: the verdict, the numbers that led to it, a sentence why, and what would change it.

    ``facts`` are the same in every run; ``timings`` are this machine's and this moment's. ``turns_if`` goes on from
    "It would turn if": another situation, or another reading of the claim, in which the verdict is another one. Every
    verdict has it.
    """

    verdict: str
    facts: Mapping[str, Any]
    because: str
    timings: Mapping[str, Any] = field(default_factory=dict)
    turns_if: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        if self.verdict not in (*VERDICTS, _BLOCKED):
            near = difflib.get_close_matches(str(self.verdict), VERDICTS, n=1, cutoff=0.0)[0]
            raise ValueError(f"verdict={self.verdict!r} is none of {', '.join(VERDICTS)}; the nearest is {near!r}")
        if not self.is_blocked and not self.turns_if:
            raise ValueError(
                f"the verdict {self.verdict!r} has turns_if={self.turns_if!r}: name a condition under which the "
                "verdict would be another one, as in turns_if='the link were slower'"
            )

    @property
    def is_blocked(self) -> bool:
        """Whether this machine lacks what the trial needs, or is too busy at the moment: nothing was decided."""
        return self.verdict == _BLOCKED

    def __str__(self) -> str:
        numbers = {**self.facts, **self.timings}
        width = max(map(len, numbers), default=0)
        rows = [f"  {name:<{width}}  {value}" for name, value in numbers.items()]
        turns = [textwrap.fill(f"It would turn if {self.turns_if}.", 100)] if self.turns_if else []
        return "\n".join([textwrap.fill(f"{self.verdict}: {self.because}", 100), *rows, *turns])


def blocked(because: str) -> Evidence:
    """The evidence of a trial that could not decide here."""
    return Evidence(_BLOCKED, {}, because=because)


@dataclass(frozen=True)
class Trial:
    """A claim and the code that decides it; ``run()`` returns the evidence."""

    claim: Claim
    function: Callable[[Ranks], Evidence]

    def run(self, ranks: Ranks | None = None) -> Evidence:
        """Put the claim to the test here and now; ``ranks(n)`` lends the clusters.

        By default these are the notebook's, on the CPU where a trial needs no GPU.
        """
        needed, found = _NEEDS[self.claim.needs], len(machine().devices)
        if found < needed:
            what = "a GPU" if needed == 1 else f"{needed} GPUs"
            return blocked(f"this trial needs {what}; the machine has {found}")
        return self.function(ranks or (shared_cluster if needed else ranks_on_cpu))


_on_cpu: dict[int, Cluster] = {}


def ranks_on_cpu(world_size: int) -> Cluster:
    """The notebook's ranks where it has no GPUs; where it has, others of their own, kept warm as well."""
    if not machine().devices:
        return shared_cluster(world_size)
    if world_size not in _on_cpu or _on_cpu[world_size].is_closed:
        _on_cpu[world_size] = Cluster(world_size, links=Links())
    return _on_cpu[world_size]


_TRIALS: dict[str, Trial] = {}


def tries(name: str) -> Callable[[Callable[[Ranks], Evidence]], Callable[[Ranks], Evidence]]:
    """Make a function the trial of the claim of this name."""
    claim = next((claim for claim in CLAIMS if claim.name == name), None)
    if claim is None or name in _TRIALS:
        raise ValueError(f"{name!r} must name a claim of the catalogue that has no trial yet")

    def register(function: Callable[[Ranks], Evidence]) -> Callable[[Ranks], Evidence]:
        _TRIALS[name] = Trial(claim, function)
        return function

    return register


def found_trials() -> dict[str, Trial]:
    """The trials of the modules that have been imported, by the claim's name."""
    return _TRIALS
