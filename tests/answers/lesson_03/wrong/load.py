"""03.load: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from typing import Any

from torch import nn

from course_lib.learn.exercises.lesson_03.load import _loading
from course_lib.learn.exercises.lesson_03.load.facts import State


def _into_a_wrapper(model: nn.Module, saved: State) -> None:
    nn.DataParallel(model).load_state_dict(saved)


def _lstrip(model: nn.Module, saved: State) -> None:
    model.load_state_dict({name.lstrip("module."): tensor for name, tensor in saved.items()})


def _replace(model: nn.Module, saved: State) -> None:
    model.load_state_dict({name.replace("module.", ""): tensor for name, tensor in saved.items()})


def _only_if_it_fits(model: nn.Module, saved: State) -> bool:
    bare = {name.removeprefix("module."): tensor for name, tensor in saved.items()}
    for state in (saved, bare):
        if state.keys() == model.state_dict().keys():
            model.load_state_dict(state)
            return True
    return False


EXERCISE = "03.load"
EXAMPLES: dict[str, Any] = {
    "wrapped-again": _into_a_wrapper,
    "mended-and-not-strict": _loading(lambda name: name.removeprefix("module."), strict=False),
    "left-alone-in-silence": _only_if_it_fits,
    "lstrip": _lstrip,
    "replaced-everywhere": _replace,
    "never-asked": _loading(lambda name: name.removeprefix("module."), only_if_needed=False),
}
