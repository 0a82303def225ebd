"""Some claims that bets are placed on: their sentences, the bets that are kept, and which come too late."""

from __future__ import annotations

from collections.abc import Iterable

from course_lib.learn.records.bet_records import Bet, BetStatus, is_own, note_bet, note_reset, standings

__all__ = ["OpenBets", "to_open_again"]


def to_open_again(names: Iterable[str]) -> str:
    """How claims that were seen without a bet are opened again."""
    each = [f'"{name}"' for name in names]
    it = "it" if len(each) == 1 else "them"
    return f"No bet stood before {it}; bet({', '.join(each)}).reset() opens {it} again."


class OpenBets:
    """Claims by name, and what is kept of bets on them. How they are asked for is in ``betting.py``."""

    def __init__(self, names: tuple[str, ...]) -> None:
        from course_lib.claims import VERDICTS, trial  # they import torch

        if not names:
            raise ValueError('name the claims to bet on, such as bet("A4", "A6")')
        if len(set(map(str, names))) < len(names):
            raise ValueError(f"bet on each claim once; got {', '.join(map(str, names))}")
        self.claims = {name: trial(name).claim for name in names}
        self.verdicts: tuple[str, ...] = VERDICTS

    def lock(self, bets: dict[str, Bet]) -> tuple[str, ...]:
        """Keep these bets; the names of those that came after their trial and so are not kept."""
        known = standings()
        late = []
        for name, one in bets.items():
            if known.get(name, BetStatus()).is_settled and not is_own(name):
                late.append(name)
            else:
                note_bet(name, one, self.claims[name].text if is_own(name) else "")
        return tuple(late)

    def open_again(self) -> tuple[str, ...]:
        """Open those whose trial was seen without a bet, and name them."""
        names = tuple(name for name, stands in self.standing().items() if stands.is_seen_without_bet)
        for name in names:
            note_reset(name)
        return names

    def standing(self) -> dict[str, BetStatus]:
        """How it stands with each of these claims, from what is kept."""
        known = standings()
        return {name: known.get(name, BetStatus()) for name in self.claims}
