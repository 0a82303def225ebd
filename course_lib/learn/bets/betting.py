"""``bet("A4", "A6")``: bets on claims, before their trials may be seen; a form, or ``.commit(A4=("false", 70))``."""

from __future__ import annotations

import difflib
import math
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from course_lib.forms.show import Shown, panel, paragraph, show, table, unbroken
from course_lib.learn.bets.open_bets import OpenBets, to_open_again
from course_lib.learn.records.bet_records import SURE, Bet

if TYPE_CHECKING:
    from course_lib.learn.bets.bet_form import BetForm

__all__ = ["Bets", "Locked", "bet"]


@dataclass(frozen=True, repr=False)
class Locked(Shown):
    """What is said when bets were locked: each claim with its bet, and what could not be locked."""

    rows: tuple[tuple[str, str, str], ...]  # name, claim, bet
    sentence: str

    def __repr__(self) -> str:
        lines = [
            textwrap.fill(f"{name:<4}{bet:<28}{claim}", 100, subsequent_indent=" " * 32)
            for name, claim, bet in self.rows
        ]
        return "\n".join([*lines, self.sentence])

    def _html(self) -> str:
        rows = [[name, claim, unbroken(bet)] for name, claim, bet in self.rows]
        return panel("info", "", table(["", "the claim", "your bet"], rows) + paragraph(self.sentence))


class Bets(OpenBets):
    """Bets on some claims. As the last line of a cell it is a form; ``commit`` bets in code."""

    def commit(self, **bets: Any) -> Locked:
        """Lock bets: ``commit(A4=("false", 70), A6="holds")``; without a per cent it is 50. A bet may be changed until
        its trial has been seen.

        Raises ``ValueError`` for a claim that is not here, for what is no verdict, and for another per cent.
        """
        given = {name: self._checked(name, value) for name, value in bets.items()}
        late = self.lock(given)
        said = Locked(self._rows(), self._sentence(late))
        show(said)
        return said

    def reset(self) -> Locked:
        """Open claims again whose trials were seen without a bet, as after a Run All. What was bet on stands."""
        names = self.open_again()
        what = f"Open again: {', '.join(names)}. Bet as if you had seen nothing." if names else _NOTHING_TO_OPEN
        said = Locked(self._rows(), what)
        show(said)
        return said

    def _sentence(self, late: tuple[str, ...]) -> str:
        standing = self.standing()
        if late:
            seen = f"The trial of {', '.join(late)} has been seen, so nothing new was kept."
            unbet = [name for name in late if standing[name].is_seen_without_bet]
            how = f" {to_open_again(unbet)}" if unbet else " What you bet before it stands."
            return seen + how
        missing = [name for name, stands in standing.items() if stands.bet is None and not stands.is_settled]
        if missing:
            return f"There is no bet yet on {', '.join(missing)}: add it before you run the next cell."
        return "Now run the next cell."

    def _rows(self) -> tuple[tuple[str, str, str], ...]:
        return tuple(
            (name, self.claims[name].text, str(stands.bet) if stands.bet else "no bet")
            for name, stands in self.standing().items()
        )

    def _checked(self, name: str, value: Any) -> Bet:
        if name not in self.claims:
            raise ValueError(f"{name} is not asked here; there are {', '.join(self.claims)}")
        verdict, sure = value if isinstance(value, tuple | list) and len(value) == 2 else (value, 50)
        if verdict not in self.verdicts:
            word = "holds" if verdict is True else str(verdict).casefold()
            near = difflib.get_close_matches(word, self.verdicts, n=1, cutoff=0.0)[0]
            raise ValueError(
                f"{name}={value!r}: bet one of {', '.join(self.verdicts)}, as in {name}=({near!r}, 70); "
                f"the nearest is {near!r}"
            )
        if sure not in SURE or isinstance(sure, bool):
            nearest = min(SURE, key=lambda one: abs(one - _per_cent(sure)))
            raise ValueError(
                f"{name}={value!r}: how sure is one of {', '.join(map(str, SURE))} per cent; the nearest is {nearest}"
            )
        return Bet(verdict, int(sure))

    def form(self) -> BetForm:
        """The form, as an ipywidgets box."""
        from course_lib.learn.bets.bet_form import BetForm  # ipywidgets, only where a form is shown

        return BetForm(self)

    def __repr__(self) -> str:
        lines = [
            textwrap.fill(f"{name:<4}{claim.text}", 100, subsequent_indent=" " * 4)
            for name, claim in self.claims.items()
        ]
        first = next(iter(self.claims))
        how = f"commit({first}=({self.verdicts[0]!r}, 70))"
        return "\n".join([*lines, f"Bet one of {', '.join(self.verdicts)}, how sure: {how}."])

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return self.form().bundle(repr(self))


_NOTHING_TO_OPEN = "None of these was seen without a bet. What was bet on stands."


def _per_cent(sure: Any) -> float:
    """What may have been meant by it: 70 for 0.7 and for "70 %"; 50 where nothing can be made of it."""
    try:
        number = float(str(sure).strip().removesuffix("%"))
    except ValueError:
        return 50
    if math.isnan(number):
        return 50
    return 100 * number if 0 < number <= 1 else number


def bet(*names: str) -> Bets:
    """Bets on the claims of these names; as the last line of a cell a form, ``.commit(A4=("false", 70))`` in code.

    Raises ``ValueError`` for a name that no claim has, with the nearest one.
    """
    return Bets(names)
