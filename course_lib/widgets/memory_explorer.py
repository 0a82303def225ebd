"""The memory explorer: choose batch size, optimizer, precision and recomputation (activation checkpointing), and see
where the bytes go.

It draws what the cost model predicts, the same formulas that the lesson compares with the ledger; nothing is
run. Two bars are shown, the choice of now and one that was kept, since a change says more than a size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Protocol

import ipywidgets as widgets

from course_lib.meter.units import bytes_text
from course_lib.plot import MemoryBoard, Picture, memory_bars

__all__ = ["MemoryExplorer", "Predicts"]

_LABELS = ("parameter", "gradient", "optimizer state", "activation")
_ROWS = ("kept", "now")


class Predicts(Protocol):
    """What feeds the explorer: bytes by the ledger's labels for one choice; a ``ValueError`` is shown to the
    user.
    """

    def __call__(
        self, *, batch_size: int, optimizer: str, precision: str, recompute: bool
    ) -> Mapping[str, int]: ...


class MemoryExplorer(widgets.VBox):
    """Controls above two stacked bars, and a line that says the same in words.

    ``limit_bytes`` draws the memory of a device and says whether the choice fits. The starting choice is the
    first of each list; ``batch_sizes`` are the smallest and the largest batch that can be chosen.
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
    ) -> None:
        low, high = batch_sizes
        if not low <= batch_size <= high:
            raise ValueError(f"batch_size is {batch_size}; it lies between {low} and {high}")
        self._predict, self._limit_bytes, self._title = predict, limit_bytes, title
        self._board = MemoryBoard(_ROWS, _LABELS, title=title)
        style = {"description_width": "initial"}
        self.batch_size = widgets.BoundedIntText(
            batch_size, min=low, max=high, description="batch size", style=style
        )
        self.optimizer = widgets.Dropdown(options=list(optimizers), description="optimizer", style=style)
        self.precision = widgets.Dropdown(options=list(precisions), description="precision", style=style)
        self.recompute = widgets.Checkbox(False, description="recompute activations", indent=False)
        self.keep = widgets.Button(
            description="keep for comparison", tooltip="Make the lower bar the upper one"
        )
        self.image = widgets.Image(format="png", layout=widgets.Layout(width="768px", max_width="100%"))
        self.words = widgets.HTML()
        self._sizes = self._kept = dict(predict(**self.choice))
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

    def picture(self) -> Picture:
        """The bars as they are now, as a picture that stays."""
        bars = dict(zip(_ROWS, (self._kept, self._sizes), strict=True))
        return memory_bars(bars, title=self._title, limit_bytes=self._limit_bytes)

    def __repr__(self) -> str:
        return f"Memory explorer ({self._in_words()}): {bytes_text(sum(self._sizes.values()))}"

    def _rows_of_controls(self) -> tuple[widgets.HBox, widgets.HBox]:
        wrap = widgets.Layout(flex_flow="row wrap")
        first = widgets.HBox([self.batch_size, self.optimizer, self.precision], layout=wrap)
        return first, widgets.HBox([self.recompute, self.keep], layout=wrap)

    def _changed(self, _: Any) -> None:
        try:
            self._sizes = dict(self._predict(**self.choice))
        except ValueError as error:
            self.words.value = f"<p role='status'>No prediction: {escape(str(error))}</p>"
        else:
            self._draw()

    def _keep(self, _: Any) -> None:
        self._kept = self._sizes
        self._draw()

    def _draw(self) -> None:
        bars = dict(zip(_ROWS, (self._kept, self._sizes), strict=True))
        self.image.value = self._board.draw(bars, limit_bytes=self._limit_bytes).png()
        now, kept = sum(self._sizes.values()), sum(self._kept.values())
        items = ", ".join(f"{label} {bytes_text(self._sizes.get(label, 0))}" for label in _LABELS)
        text = f"Now ({self._in_words()}): <b>{bytes_text(now)}</b>, of which {items}. "
        text += f"That is {now / kept:.2f} times the bar that was kept." if kept else ""
        if self._limit_bytes is not None:
            fits = "fits in" if now <= self._limit_bytes else "does not fit in"
            text += f" It {fits} {bytes_text(self._limit_bytes)}."
        self.words.value = f"<p role='status'>{text}</p>"

    def _in_words(self) -> str:
        choice = self.choice
        parts = [f"batch {choice['batch_size']}", choice["optimizer"], choice["precision"]]
        return ", ".join([*parts, "recomputed"] if choice["recompute"] else parts)
