"""What lesson 02 asks about process groups, before ranks make some and not others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from course_lib.learn.catalogue.prediction_spec import Asked, Explanation

__all__ = ["GROUPS"]

_OWN_GROUPS = (
    "it works: each rank has made the groups that it is in",
    "ranks 2 and 3 hang, where they make their pair",
    "all four hang, where they make the group of everybody",
    "ranks 0 and 1 get a ValueError",
)


def _new_group(ended: Any) -> Explanation:
    """``ended``: the ``RankError``, or the run of a program that came through."""
    statuses: Mapping[int, Any] = getattr(ended, "statuses", {})
    stuck = sorted(rank for rank, status in statuses.items() if status.rendezvous == "new_group")
    seen: dict[tuple[int, ...], str] = {
        (): _OWN_GROUPS[0],
        (2, 3): _OWN_GROUPS[1],
        (0, 1, 2, 3): _OWN_GROUPS[2],
    }
    return Explanation(
        measured=seen.get(tuple(stuck), f"ranks {stuck} hang in new_group"),
        because="Groups have no names of their own: PyTorch counts the calls of new_group on each rank and takes the "
        "count as the name. The pair found each other, since only they wait for it. But from then on ranks 2 and 3 "
        "count one more than ranks 0 and 1, and their next group has another name. The line that is wrong "
        "comes before the one where they hang.",
        misreadings={
            _OWN_GROUPS[0]: "That seems right, and the pair does its sum. But look where all four stand.",
            _OWN_GROUPS[1]: "The rule says so, and with another version or back end it may be so. Here the pair comes "
            "through, and the mistake shows later, which is worse.",
            _OWN_GROUPS[3]: "Ranks 0 and 1 do not learn that the others have made a group. So they have nothing to "
            "check.",
        },
    )


GROUPS = (Asked(name="02.new_group", question="What happens?", choices=_OWN_GROUPS, tell=_new_group),)
