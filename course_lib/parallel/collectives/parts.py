"""Which parameters are parts: other ranks hold other ones in their place, and no copies.

A module says so by ``parts_among``. Whoever is given parameters alone, as an optimizer is, sees no module: so those
that make parts write it down here, by parameter, for as long as that lives. A copy of a parameter is another one, and
PyTorch copies nothing but its numbers. So a module that is made for parts is ``HoldsParts``, and its copies know of
theirs; one of somebody else's, as a stage of a pipeline is, has a ``_Mark`` beside its parameters (``stage_is_part``).
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any, NamedTuple

from torch import Tensor, nn
from torch.utils.weak import TensorWeakRef, WeakIdKeyDictionary

from course_lib.parallel.collectives.members import Members

__all__ = ["HeldPart", "HoldsParts", "held_in_parts", "part_of", "stage_is_part"]


class HeldPart(NamedTuple):
    """``among`` share what ``kind`` holds; ``averaged_by`` says what averages its gradients, if no mean does."""

    kind: str
    among: Members
    averaged_by: str = ""

    def is_sharded_among(self, members: Members) -> bool:
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


def stage_is_part(stage: nn.Module, kind: str, among: Members) -> None:
    """``held_in_parts`` for all parameters of a module of any class; also in copies of it, or of a module within it."""
    held_in_parts(stage.parameters(), kind, among)
    for module in stage.modules():
        if own := list(module.parameters(recurse=False)):
            module.__dict__[_MARK] = _Mark(own, HeldPart(kind, among))


class _Mark:
    """Lies in a module beside its parameters. Whoever copies the module copies this too, and it marks the copies.

    It keeps no parameter alive: a wrapper may put others in the place of these.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], part: HeldPart) -> None:
        self._parameters, self._part = [TensorWeakRef(parameter) for parameter in parameters], part

    @classmethod
    def of_copies(cls, parameters: Iterable[nn.Parameter], part: HeldPart) -> _Mark:
        copies = list(parameters)
        held_in_parts(copies, *part)
        return cls(copies, part)

    def _living(self) -> list[nn.Parameter]:
        return [parameter for known in self._parameters if (parameter := known()) is not None]

    def __deepcopy__(self, memo: dict[int, Any]) -> _Mark:
        return _Mark.of_copies((copy.deepcopy(parameter, memo) for parameter in self._living()), self._part)

    def __reduce__(self) -> tuple[Any, ...]:
        return _Mark.of_copies, (self._living(), self._part)


class HoldsParts(nn.Module):
    """A module some of whose parameters are parts: they are so in a copy of it too, deep or by pickle."""

    def __getstate__(self) -> dict[str, Any]:
        parts = {name: part for name, p in self.named_parameters() if (part := part_of(p)) is not None}
        return {**self.__dict__, _PARTS: parts}

    def __setstate__(self, state: dict[str, Any]) -> None:
        parts = state.pop(_PARTS, {})
        super().__setstate__(state)
        for name, part in parts.items():
            _PART_OF[self.get_parameter(name)] = part


_PARTS = "parts held in it"  # a key that no attribute has
_MARK = "mark of its parts"  # likewise
