"""A mesh at a glance: who holds which piece of a matrix, what each rank keeps, and what a step sends along each axis.

What was measured is a black line over the bars. Memory has one scale for all settings, whose dashed line is one device
alone; bytes have the scale of the axis that sends most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from course_lib.cost.mesh.link_bytes import LinkBytes
from course_lib.cost.single_device.model_state import StateBytes
from course_lib.layouts.mesh import Mesh
from course_lib.layouts.mesh_pieces import Piece
from course_lib.plot.boards.mesh_tiles import draw_holders, ranks_text
from course_lib.plot.raster import Raster, Sheet, sentence
from course_lib.plot.style import LABEL_LOOKS, OKABE_ITO, Look

__all__ = ["LINK_LOOKS", "MeshBoard"]

LINK_LOOKS = {
    "within nodes": Look(OKABE_ITO["sky blue"], "", ""),
    "between nodes": Look(OKABE_ITO["vermillion"], "x", ""),
}
_WIDTH, _HEIGHT = 768, 536  # pixels of the screen
_TOP, _BOTTOM = 336, 480  # of the bars of memory
_LEFT, _RIGHT = 56, 340
_BYTES_LEFT, _BYTES_RIGHT = 384, 756
_MOST_LETTERS = 50  # of the groups of an axis, in their line
_KIB = 1024


class MeshBoard:
    """Draws one setting after another. ``limit_bytes`` is what one device alone would hold."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes

    def draw(
        self,
        mesh: Mesh,
        name: str,
        holders: Mapping[Piece, Sequence[int]],
        states: Sequence[StateBytes],
        sent: Mapping[str, LinkBytes],
        *,
        alt: str,
        measured_held: Sequence[int] = (),
        measured_sent: Mapping[str, LinkBytes] | None = None,
    ) -> Raster:
        """``holders``: the pieces of the parameter ``name`` with their ranks; ``states``: what each rank holds;
        ``sent``: by axis, of all ranks together; and of the last two what was measured."""
        sheet = Sheet(_WIDTH, _HEIGHT)
        sheet.text(16, 14, name, bold=True)
        sheet.text(372, 14, str(mesh), size=9, bold=True)
        draw_holders(sheet, mesh, holders, (16, 34, 340, 290), (372, 30, 756, 290))
        self._memory(sheet, states, measured_held)
        _sent(sheet, mesh, sent, measured_sent or {})
        if measured_held:
            sheet.line(560, 520, 586, 520, colour="black", width=3)
            sheet.text(594, 520, "measured", size=9, bold=True)
        return Raster(sheet.image, alt)

    def blank(self, said: str) -> Raster:
        """A sheet with a sentence, where there is nothing to draw."""
        return sentence(said, _WIDTH, _HEIGHT)

    def _memory(self, sheet: Sheet, states: Sequence[StateBytes], measured: Sequence[int]) -> None:
        end_bytes = 1.15 * max([self._limit_bytes, *(state.total for state in states), *measured])
        wide = (_RIGHT - _LEFT) / max(len(states), 4)

        def y(size_bytes: float) -> float:
            return _BOTTOM - (_BOTTOM - _TOP) * size_bytes / end_bytes

        sheet.text(_LEFT, _TOP - 22, "KiB that each rank keeps", bold=True)
        for tick in range(0, round(end_bytes / _KIB), 1000):
            sheet.line(_LEFT, y(tick * _KIB), _RIGHT, y(tick * _KIB))
            sheet.text(_LEFT - 6, y(tick * _KIB), f"{tick:,}", size=9, anchor="rm")
        for rank, state in enumerate(states):
            left, right, floor = _LEFT + (rank + 0.08) * wide, _LEFT + (rank + 0.92) * wide, 0
            for kind, size_bytes in state.as_dict().items():
                sheet.box(left, y(floor + size_bytes), right, y(floor), LABEL_LOOKS[kind])
                floor += size_bytes
            if wide > 30:
                sheet.text((left + right) / 2, y(floor) - 9, f"{floor / _KIB:,.0f}", size=9, anchor="mm")
            sheet.text((left + right) / 2, _BOTTOM + 11, str(rank), size=9, anchor="mm")
        for rank, size_bytes in enumerate(measured):
            for colour, width in (("white", 7), ("black", 3)):
                x = _LEFT + rank * wide
                sheet.line(x, y(size_bytes), x + wide, y(size_bytes), colour=colour, width=width)
        for x in range(_LEFT, _RIGHT, 9):
            sheet.line(x, y(self._limit_bytes), x + 5, y(self._limit_bytes), colour="black", width=2)
        used = sheet.text(_RIGHT, _TOP - 6, "one device alone", size=9, anchor="rm")
        for x in (_RIGHT - used - 20, _RIGHT - used - 11):
            sheet.line(x, _TOP - 6, x + 5, _TOP - 6, colour="black", width=2)
        sheet.line(_LEFT, _BOTTOM, _RIGHT, _BOTTOM, colour="black", width=2)
        sheet.text((_LEFT + _RIGHT) / 2, _BOTTOM + 27, "rank", size=9, anchor="mm")
        _key(sheet, 16, {_WORDS[kind]: LABEL_LOOKS[kind] for kind in _WORDS}, 110)


_WORDS = {"parameter": "weights", "gradient": "gradients", "optimizer state": "AdamW's states"}


def _sent(sheet: Sheet, mesh: Mesh, sent: Mapping[str, LinkBytes], measured: Mapping[str, LinkBytes]) -> None:
    """An axis after the other: its groups, and a bar for what its messages are, by kind of link."""
    sheet.text(_BYTES_LEFT, _TOP - 22, "KiB sent in a step along each axis, by all ranks", bold=True)
    most = max([1, *(sum(each) for each in (*sent.values(), *measured.values()))])
    long = _BYTES_RIGHT - _BYTES_LEFT - 136  # of the longest bar; numbers stand beside it
    for at, (axis, links) in enumerate(sent.items()):
        top = _TOP + 37 * at
        used = sheet.text(_BYTES_LEFT, top, axis, size=9, bold=True)
        sheet.text(_BYTES_LEFT + used + 8, top, f"groups {_groups(mesh, axis)}", size=8)
        x = float(_BYTES_LEFT)
        for look, size_bytes in zip(LINK_LOOKS.values(), links, strict=True):
            if size_bytes:
                sheet.box(x, top + 9, x + long * size_bytes / most, top + 24, look)
                x += long * size_bytes / most
        sheet.text(x + 6, top + 16.5, _of_links(links), size=8)
        if axis in measured:
            for end in {measured[axis].within_bytes, sum(measured[axis])} - {0}:
                place = _BYTES_LEFT + long * end / most
                for colour, width in (("white", 7), ("black", 3)):
                    sheet.line(place, top + 6, place, top + 27, colour=colour, width=width)
    if not sent:
        sheet.text(_BYTES_LEFT, _TOP + 4, "one rank sends nothing", size=9)
    _key(sheet, 384, LINK_LOOKS, 125)


def _of_links(links: LinkBytes) -> str:
    if not links.between_bytes:
        return f"{links.within_bytes / _KIB:,.0f}, none between"
    if not links.within_bytes:
        return f"{links.between_bytes / _KIB:,.0f}, all between"
    return f"{sum(links) / _KIB:,.0f}, {links.between_bytes / _KIB:,.0f} between"


def _groups(mesh: Mesh, axis: str) -> str:
    """As many of an axis' groups as there is room for beside its name."""
    said, room = "", _MOST_LETTERS - len(axis)
    for group in mesh.groups(axis):
        more = f"{said}, {ranks_text(mesh, group)}" if said else ranks_text(mesh, group)
        if len(more) > room:
            return f"{said}, …"
        said = more
    return said


def _key(sheet: Sheet, left: float, looks: Mapping[str, Look], step: float) -> None:
    y = _BOTTOM + 40 if left < _RIGHT else _BOTTOM + 20
    for at, (word, look) in enumerate(looks.items()):
        x = left + at * step
        sheet.box(x, y - 6, x + 22, y + 6, look)
        sheet.text(x + 28, y, word, size=9)
