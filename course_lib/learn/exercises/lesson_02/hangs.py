"""How an answer hung, by what its ranks told: which half of an exchange they all stood in."""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Evidence

__all__ = ["nobody_receives", "nobody_sends"]


def nobody_receives(evidence: Evidence) -> bool:
    """Two ranks wait in a send to each other. Both halves in flight together could not wait so."""
    return _stand_in(evidence, "send")


def nobody_sends(evidence: Evidence) -> bool:
    """Two ranks wait in a receive from each other, and neither has sent."""
    return _stand_in(evidence, "receive")


def _stand_in(evidence: Evidence, half: str) -> bool:
    error, case = evidence.error, evidence.wrong[0].case if evidence.wrong else ""
    if error is None or error.kind != "RankTimeout" or not case.endswith("on 2 ranks"):
        return False  # on more ranks a message to the wrong neighbour looks the same
    return [(stand.rank, stand.peer) for stand in evidence.stands.waiting_in(half)] == [(0, 1), (1, 0)]
