"""A slider and a number box that show the same number: the slider for the hand, the labelled box for everybody."""

from __future__ import annotations

import ipywidgets as widgets

__all__ = ["Paired"]


class Paired(widgets.HBox):
    """``number`` is the box, whose ``value`` is the choice; the slider follows it and it follows the slider."""

    def __init__(self, name: str, value: float, low: float, high: float, *, step: float = 1) -> None:
        whole = all(isinstance(each, int) for each in (value, low, high, step))
        box = widgets.BoundedIntText if whole else widgets.BoundedFloatText
        slider = widgets.IntSlider if whole else widgets.FloatSlider
        sizes = {"min": low, "max": high, "step": step}
        self.number = box(value, **sizes, description=name, style={"description_width": "initial"})
        self.number.layout.width = f"{11 + len(name) // 2}em"
        self.slider = slider(value, **sizes, readout=False, layout={"width": "9em"})
        widgets.link((self.number, "value"), (self.slider, "value"))
        super().__init__([self.number, self.slider])
        self.add_class("course-paired")  # the slider's handle is given the name of the box

    @property
    def value(self) -> float:
        return float(self.number.value) if isinstance(self.number, widgets.BoundedFloatText) else self.number.value

    @value.setter
    def value(self, value: float) -> None:
        self.number.value = value

    @property
    def disabled(self) -> bool:
        return bool(self.number.disabled)

    @disabled.setter
    def disabled(self, disabled: bool) -> None:
        self.number.disabled = self.slider.disabled = disabled
