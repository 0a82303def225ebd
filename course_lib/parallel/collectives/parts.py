"""Which parameters are parts: other ranks hold other ones in their place, and no copies.

A module says so by ``parts_among``. Whoever is given parameters alone, as an optimizer is, sees no module: so those
that make parts write it down here, by parameter, for as long as that lives.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from course_lib.parallel.collectives.members import Members

__all__ = ["HeldPart", "held_in_parts", "part_of"]


class HeldPart(NamedTuple):
    """``among`` share what ``kind`` holds; ``averaged_by`` says what averages its gradients, if no mean does."""

    kind: str
    among: Members
    averaged_by: str = ""

    def is_shared_out_in(self, members: Members) -> bool:
        """Whether several of ``members`` have other parts, or no mean over them is the right average."""
        if self.among.count == 1 or members.count == 1:
            return False
        return bool(self.averaged_by) or len({*self.among.ranks} & {*members.ranks}) > 1


_PART_OF = WeakIdKeyDictionary()  # by parameter


def held_in_parts(parameters: Iterable[Tensor], kind: str, among: Members, averaged_by: str = "") -> None:
    """The ranks ``among`` have other parameters in the place of these."""
    for parameter in parameters:
        _PART_OF[parameter] = HeldPart(kind, among, averaged_by)


def part_of(parameter: Tensor) -> HeldPart | None:
    """What is known of a parameter; ``None`` for one that nobody has cut."""
    return _PART_OF.get(parameter)
