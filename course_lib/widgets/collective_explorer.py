"""The collective explorer: step forward and back through a collective that real ranks have run.

It shows recordings, not a simulation: what lay in each rank's memory after each step, and the messages that were sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import ipywidgets as widgets

from course_lib.forms import Form, picture_box
from course_lib.meter.units import bytes_text
from course_lib.parallel.collectives.recording import Recording
from course_lib.plot import Picture, tiles
from course_lib.plot.tile_chart import piece_text
from course_lib.widgets.controls import fill

__all__ = ["CollectiveExplorer"]


class CollectiveExplorer(Form):
    """Controls above a picture of all ranks' memory, and lines that say the same in words.

    ``recordings`` are what ``record`` gave; the first is shown first. Two of one name are a ``ValueError``.
    """

    def __init__(self, recordings: Sequence[Recording]) -> None:
        names = [recording.name for recording in recordings]
        if not names or len(set(names)) < len(names):
            raise ValueError(f"the recordings are {names}; give at least one, each with a name of its own")
        self._recordings = dict(zip(names, recordings, strict=True))
        self._drawn = lru_cache(maxsize=64)(self._draw_frame)
        style = {"description_width": "initial"}
        self.collective = widgets.Dropdown(options=names, description="collective", style=style)
        self.step = widgets.BoundedIntText(
            0, min=0, max=self._now.num_steps, description="step", style=style, layout={"width": "9em"}
        )
        self.back = widgets.Button(description="back", tooltip="One step back", layout={"width": "6em"})
        self.forward = widgets.Button(description="forward", tooltip="One step forward", layout={"width": "6em"})
        self.image = picture_box()
        self.words = widgets.HTML()
        self.collective.observe(self._chosen, names="value")
        self.step.observe(self._draw, names="value")
        self.back.on_click(lambda _: self._move(-1))
        self.forward.on_click(lambda _: self._move(1))
        self._draw()
        wrap = widgets.Layout(flex_flow="row wrap")
        controls = widgets.HBox([self.collective, self.step, self.back, self.forward], layout=wrap)
        super().__init__([controls, self.image, self.words])

    @property
    def _now(self) -> Recording:
        return self._recordings[self.collective.value]

    def picture(self) -> Picture:
        """What is shown now, as a picture that stays."""
        return self._picture(self._now.name, self.step.value)

    def __repr__(self) -> str:
        return f"Collective explorer ({self._now.name}, step {self.step.value} of {self._now.num_steps})"

    def _picture(self, name: str, step: int) -> Picture:
        recording = self._recordings[name]
        before = recording.frames[step - 1] if step else None
        title = f"{name}: {f'after step {step}' if step else 'at the beginning'}"
        return tiles({title: recording.frames[step]}, columns=1, before=before)

    def _draw_frame(self, name: str, step: int) -> tuple[bytes, int]:
        """The picture's PNG and its width on the screen, in pixels."""
        picture = self._picture(name, step)
        return picture.png(), round(96 * picture.figure.get_size_inches()[0])

    def _chosen(self, _: object) -> None:
        self.step.value = 0
        self.step.max = self._now.num_steps
        self._draw()

    def _move(self, steps: int) -> None:
        """The buttons stay enabled at both ends, for one that is disabled loses the focus of the keyboard."""
        wanted = self.step.value + steps
        if 0 <= wanted <= self._now.num_steps:
            self.step.value = wanted
        else:
            self._draw(beyond="before the first" if wanted < 0 else "after the last")

    def _draw(self, _: object = None, *, beyond: str = "") -> None:
        step, end = self.step.value, self._now.num_steps
        if step > end:
            return  # the box has not met the bound of this collective yet
        self.image.value, width = self._drawn(self._now.name, step)
        self.image.layout.width = f"{width}px"
        lines = [self._messages(), self._arrived(), self._so_far(), f"There is no step {beyond}." if beyond else ""]
        self.words.value = fill("collective.html", step=step, end=end, lines=lines)

    def _messages(self) -> str:
        transfers = self._now.frames[self.step.value].transfers
        if not transfers:
            return "Nothing has been sent."
        sent = ", ".join(f"{t.sender} to {t.receiver} ({bytes_text(t.size_bytes)})" for t in transfers)
        return f"Messages from rank to rank: {sent}."

    def _arrived(self) -> str:
        """What lies in memory now and did not before."""
        frames, step = self._now.frames, self.step.value
        if not step:
            return ""
        come = [
            f"rank {rank} has {piece_text(piece)} at place {place}"
            for rank, held in enumerate(frames[step].held)
            for place, piece in enumerate(held)
            if piece and piece != frames[step - 1].held[rank][place]
        ]
        return f"New: {', '.join(come)}." if come else ""

    def _so_far(self) -> str:
        ranks, step = range(self._now.num_ranks), self.step.value
        sent = ", ".join(f"rank {r} {bytes_text(self._now.sent_bytes(r, until=step))}" for r in ranks)
        return f"Sent so far: {sent}." if step else ""
