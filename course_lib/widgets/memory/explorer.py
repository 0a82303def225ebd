"""The memory explorer: choose batch size, optimizer, precision and recomputation (activation checkpointing), and see
where the bytes go.

It draws what the cost model predicts, the same formulas that the lesson compares with the ledger; nothing is
run. Two bars are shown, the choice of now and one that was kept, since a change says more than a size. Missions are
held against every choice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import product
from typing import Any, Protocol

import ipywidgets as widgets

from course_lib.forms import Form, picture_box
from course_lib.meter.units import bytes_text
from course_lib.plot import MemoryBoard, Picture, memory_bars
from course_lib.widgets.controls import fill
from course_lib.widgets.memory.missions import Bar, MemoryMission

__all__ = ["MemoryExplorer", "Predicts"]

_LABELS = ("parameter", "gradient", "optimizer state", "activation")
_ROWS = ("kept", "now")


class Predicts(Protocol):
    """What feeds the explorer: bytes by the ledger's labels for one choice; a ``ValueError`` is shown to the
    user.
    """

    def __call__(self, *, batch_size: int, optimizer: str, precision: str, recompute: bool) -> Mapping[str, int]: ...


class MemoryExplorer(Form):
    """Controls above two stacked bars, and a line that says the same in words.

    ``limit_bytes`` draws the memory of a device and says whether the choice fits. The starting choice is the
    first of each list; ``batch_sizes`` are the smallest and the largest batch that can be chosen. A mission that has
    been reached stays so, whatever is chosen afterwards.
    """

    def __init__(
        self,
        predict: Predicts,
        *,
        batch_size: int = 32,
        batch_sizes: tuple[int, int] = (1, 4096),
        optimizers: Sequence[str] = ("adamw", "momentum", "sgd"),
        precisions: Sequence[str] = ("float32", "bfloat16 autocast"),
        limit_bytes: int | None = None,
        title: str = "Memory of a training step, predicted",
        missions: Sequence[MemoryMission] = (),
    ) -> None:
        low, high = batch_sizes
        if not low <= batch_size <= high:
            raise ValueError(f"batch_size is {batch_size}; it lies between {low} and {high}")
        self._predict, self._limit_bytes, self._title = predict, limit_bytes, title
        self._board = MemoryBoard(_ROWS, _LABELS, title=title)
        style = {"description_width": "initial"}
        self.batch_size = widgets.BoundedIntText(batch_size, min=low, max=high, description="batch size", style=style)
        self.optimizer = widgets.Dropdown(options=list(optimizers), description="optimizer", style=style)
        self.precision = widgets.Dropdown(options=list(precisions), description="precision", style=style)
        self.recompute = widgets.Checkbox(False, description="recompute activations", indent=False)
        self.keep = widgets.Button(
            description="keep for comparison",
            tooltip="Make the lower bar the upper one",
            layout={"width": "13em"},
        )
        self.image = picture_box(width="768px")
        self.words = widgets.HTML()
        self._missions, self._found = tuple(missions), dict[int, str]()
        self._sizes = self._kept = dict(predict(**self.choice))
        self._now_dials = self._kept_dials = self.choice
        self._draw()
        for control in (self.batch_size, self.optimizer, self.precision, self.recompute):
            control.observe(self._changed, names="value")
        self.keep.on_click(self._keep)
        super().__init__([*self._rows_of_controls(), self.image, self.words])

    @property
    def choice(self) -> dict[str, Any]:
        """What is chosen now, as ``predict`` takes it."""
        names = ("batch_size", "optimizer", "precision", "recompute")
        return {name: getattr(self, name).value for name in names}

    @property
    def missions(self) -> str:
        """How each mission stands: a line each."""
        bars = Bar(self._now_dials, self._sizes), Bar(self._kept_dials, self._kept)
        return "\n".join(
            f"mission {number}: {'reached. ' + self._found[number] if number in self._found else 'not yet. ' + missed}"
            for number, mission in enumerate(self._missions, start=1)
            for missed in [mission.missed(*bars, self._bars_of)]
        )

    def picture(self) -> Picture:
        """The bars as they are now, as a picture that stays."""
        bars = dict(zip(_ROWS, (self._kept, self._sizes), strict=True))
        return memory_bars(bars, title=self._title, limit_bytes=self._limit_bytes)

    def __repr__(self) -> str:
        reached = f"; missions reached: {len(self._found)} of {len(self._missions)}" if self._missions else ""
        return f"Memory explorer ({self._in_words()}): {bytes_text(sum(self._sizes.values()))}{reached}"

    def _rows_of_controls(self) -> tuple[widgets.HBox, widgets.HBox]:
        wrap = widgets.Layout(flex_flow="row wrap")
        first = widgets.HBox([self.batch_size, self.optimizer, self.precision], layout=wrap)
        return first, widgets.HBox([self.recompute, self.keep], layout=wrap)

    def _changed(self, _: Any) -> None:
        try:
            self._sizes = dict(self._predict(**self.choice))
            self._now_dials = self.choice
        except ValueError as error:
            self.words.value = fill("memory.html", refused=error)
        else:
            self._draw()

    def _keep(self, _: Any) -> None:
        self._kept, self._kept_dials = self._sizes, self._now_dials
        self._draw()

    def _bars_of(self, batch_size: int) -> list[Bar]:
        if batch_size > self.batch_size.max:
            return []
        ways = product(self.precision.options, (False, True))
        dials: list[dict[str, Any]] = [
            {**self._now_dials, "batch_size": batch_size, "precision": precision, "recompute": recompute}
            for precision, recompute in ways
        ]
        bars = []
        for chosen in dials:
            with suppress(ValueError):  # a choice that is refused is none
                bars.append(Bar(chosen, self._predict(**chosen)))
        return bars

    def _look_at_missions(self) -> None:
        bars = Bar(self._now_dials, self._sizes), Bar(self._kept_dials, self._kept)
        for number, mission in enumerate(self._missions, start=1):
            if not mission.missed(*bars, self._bars_of):
                self._found[number] = mission.told(*bars)

    def _draw(self) -> None:
        bars = dict(zip(_ROWS, (self._kept, self._sizes), strict=True))
        self.image.value = self._board.draw(bars, limit_bytes=self._limit_bytes).png()
        now, kept = sum(self._sizes.values()), sum(self._kept.values())
        items = ", ".join(f"{label} {bytes_text(self._sizes.get(label, 0))}" for label in _LABELS)
        rest = f"{items}. " + (f"That is {now / kept:.2f} times the bar that was kept." if kept else "")
        if self._limit_bytes is not None:
            fits = "fits in" if now <= self._limit_bytes else "does not fit in"
            rest += f" It {fits} {bytes_text(self._limit_bytes)}."
        self._look_at_missions()
        said = {"choice": self._in_words(), "now": bytes_text(now), "rest": rest}
        self.words.value = fill("memory.html", refused="", **said, missions=self.missions.splitlines())

    def _in_words(self) -> str:
        choice = self.choice
        parts = [f"batch {choice['batch_size']}", choice["optimizer"], choice["precision"]]
        return ", ".join([*parts, "recomputed"] if choice["recompute"] else parts)
