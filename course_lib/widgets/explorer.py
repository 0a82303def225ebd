"""What explorers have in common: controls above a picture, lines that say the same in words, missions, a redraw."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import ipywidgets as widgets

from course_lib.base.checks import known
from course_lib.base.text import first_line
from course_lib.forms import Form, busy, picture_box
from course_lib.plot import Picture
from course_lib.plot.raster import Raster
from course_lib.widgets.controls import status
from course_lib.widgets.mission_progress import Mission, MissionProgress

__all__ = ["Explorer"]

C = TypeVar("C")  # a choice: what the controls say


class Explorer(Form, Generic[C]):
    """Rows of controls, a picture and words. A change of any control draws both again.

    An explorer makes its board and its controls, and then calls this ``__init__`` with the controls in rows. Its own
    are ``choice`` and ``_shown``; with missions also ``_found`` and ``_in_short``. A mission that has been reached
    stays so.
    """

    _NAME: str
    _NO_CHOICE = "refused"  # what a setting is that makes no choice
    _REFUSED = "This setting is refused."
    _board: Any  # which draws, and ``blank(sentence)``s where there is no choice

    def __init__(self, rows: Sequence[Sequence[widgets.Widget]], missions: Sequence[Mission[Any, Any]] = ()) -> None:
        self._progress = MissionProgress(missions)
        self._is_setting = False  # several controls are moved at once
        self._lines: list[str] = []  # the picture in words
        self.image = picture_box(width="768px")
        self.words = widgets.HTML()
        self._draw()
        for control in (each for row in rows for each in row):
            if not isinstance(control, widgets.Button):
                control.observe(self._draw, names="value")
        wrap = widgets.Layout(flex_flow="row wrap")
        super().__init__([*(widgets.HBox(list(row), layout=wrap) for row in rows), self.image, self.words])

    @property
    def choice(self) -> C:
        """What is chosen now. ``ValueError`` where that cannot be."""
        raise NotImplementedError

    def _shown(self, choice: C) -> tuple[Raster | Picture, list[str]]:
        """The picture of a choice, and the lines that say the same."""
        raise NotImplementedError

    @property
    def _found(self) -> Any:
        """What missions are held against, beside the choice."""

    def _in_short(self, choice: C) -> str:
        """What there is to say of a choice in half a line."""
        raise NotImplementedError

    def _follow(self, choice: C | None) -> None:
        """Set buttons and controls to what this choice lets them do; None where there is no choice."""

    def picture(self) -> Raster | Picture:
        """What is shown now, as a picture."""
        try:
            choice = self.choice
        except ValueError as error:
            return self._board.blank(str(error))
        return self._shown(choice)[0]

    @property
    def missions(self) -> str:
        """How each mission stands: a line each."""
        return "\n".join(self._progress.lines(self._missed))

    def _missed(self, mission: Mission[C, Any]) -> str:
        """What a mission lacks as things are set now."""
        try:
            choice = self.choice
        except ValueError:
            return self._REFUSED
        return mission.missed(choice, self._found)

    def __repr__(self) -> str:
        try:
            said = f"{self.choice}): {self._in_short(self.choice)}"
        except ValueError as error:
            said = f"{self._NO_CHOICE}): {error}"
        return f"{self._NAME} ({said}; {self._progress}"

    def _draw(self, _: object = None) -> None:
        if self._is_setting:
            return
        try:
            choice = self.choice
        except ValueError as error:
            picture, self._lines = self._board.blank(str(error)), [str(error)]
            self._follow(None)
        else:
            self._follow(choice)
            picture, self._lines = self._shown(choice)
            self._progress.look(str(choice), self._missed)
        self.image.value = picture.png()
        self._say(*self._lines, *self.missions.splitlines())

    def _say(self, *lines: str) -> None:
        self.words.value = status(*lines)

    def _settings(self, names: Sequence[str], **changed: object) -> dict[str, Any]:
        """What the controls of these names are set to, but for what is changed. ``ValueError`` for another name."""
        for name in changed:
            known("setting", name, names)
        return {name: getattr(self, name).value for name in names} | changed

    @contextmanager
    def _undrawn(self) -> Iterator[None]:
        """Within it controls move, and nothing is drawn."""
        self._is_setting = True
        try:
            yield
        finally:
            self._is_setting = False

    def _set(self, values: Iterable[tuple[Any, object]]) -> None:
        """Move several controls, each to its value, and draw once."""
        with self._undrawn():
            for control, value in values:
                control.value = value
        self._draw()

    def _on_ranks(self, button: widgets.Button, doing: str, run: Callable[[], None]) -> None:
        """Run something on ranks, with the button busy; where they fail, a sentence says so."""
        with busy(button):
            self._say(*self._lines, doing)
            try:
                run()
            except (RuntimeError, ValueError, OSError) as error:
                failed = f"The ranks could not run it: {first_line(error)}"
                self._say(*self._lines, failed, *self.missions.splitlines())
