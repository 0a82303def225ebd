"""Where ranks stood when their call was ended, as data, for who decides by it. ``report.py`` has the same in words."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["WAITS", "RankStand", "RankStands"]

WAITS = "waits"  # a state


@dataclass(frozen=True)
class RankStand:
    """Where one rank stood. ``state``: "waits", "unfinished" (begun, and not waited for), "runs", "returned", "failed",
    or another of ``RankStatus``.

    ``call``: the one that it waits in, or began last: "send", "receive", or the name of a collective; "" for none.
    ``number``: of a collective, from 1 in this call; 0 for a message. ``peer``: of a message, None from anyone.
    ``shape`` and ``dtype``: of what it handed in, None and "" where that is not known. ``members``: the ranks of a
    collective's group, where they are known.
    """

    rank: int
    state: str
    call: str = ""
    number: int = 0
    peer: int | None = None
    shape: tuple[int, ...] | None = None
    dtype: str = ""
    members: tuple[int, ...] = ()

    def waits_in(self, call: str) -> bool:
        return self.state == WAITS and self.call == call


@dataclass(frozen=True)
class RankStands:
    """Where all ranks stood, in their order.

    ``never_called``: ranks that did not make a call in which others wait. ``let_go``: ranks that began a message and
    forgot its ``Work``, where others can never go on. ``too_large``: what came with more bytes than there was room
    for, and ended a process: "message", "collective", or "".
    """

    ranks: tuple[RankStand, ...] = ()
    never_called: frozenset[int] = frozenset()
    let_go: frozenset[int] = frozenset()
    too_large: str = ""

    def waiting_in(self, call: str) -> list[RankStand]:
        return [stand for stand in self.ranks if stand.waits_in(call)]

    @property
    def have_returned(self) -> list[RankStand]:
        return [stand for stand in self.ranks if stand.state == "returned"]
