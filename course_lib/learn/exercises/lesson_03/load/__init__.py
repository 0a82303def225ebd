"""03.load: the clinic's case, mended. Saved weights whose names may carry a prefix."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any

from torch import nn

from course_lib.learn.catalogue.exercise import Case, Evidence, Exercise, Mistake
from course_lib.learn.exercises.lesson_03.facts import compare_facts
from course_lib.learn.exercises.lesson_03.load.facts import (
    LEFT_ALONE,
    LOADS,
    WENT_THROUGH,
    State,
    expected_facts,
    facts_of,
)
from course_lib.learn.judging.judge import by_cases

__all__ = ["LOAD"]

_PLAIN, _BARE, _NAMES = (
    "names with the prefix",
    "names without it",
    "a model, a decoder and an output, with the prefix",
)
_PART = "a model with an encoder.module, with the prefix"
_OTHER, _OTHER_BARE = "weights of another model, with the prefix", "weights of another model, without it"
_BOTH_BARE = "the same model with a part called module, without the prefix"
_ONLY_PART = "a model whose one part is called module, without the prefix"


def _loading(
    rename: Callable[[str], str], *, strict: bool = True, only_if_needed: bool = True
) -> Callable[[nn.Module, State], None]:
    def load(model: nn.Module, saved: State) -> None:
        if not (only_if_needed and saved.keys() == model.state_dict().keys()):
            saved = {rename(name): tensor for name, tensor in saved.items()}
        model.load_state_dict(saved, strict=strict)

    return load


def _names_in(answer: Any) -> tuple[str, ...]:
    """What the code of an answer mentions."""
    code = getattr(answer, "__code__", answer)
    if not isinstance(code, CodeType):
        return ()
    return code.co_names + tuple(name for part in code.co_consts for name in _names_in(part))  # comprehensions


def _not_strict(model: nn.Module, saved: State) -> None:
    model.load_state_dict(saved, strict=False)


def _told_by(wrong: tuple[str, ...], right: tuple[str, ...], word: str = "") -> Callable[[Evidence], bool]:
    """Whether these cases are wrong and those are right, and the answer's code names ``word``, where there is one."""

    def recognise(seen: Evidence) -> bool:
        found = {outcome.case for outcome in seen.wrong}
        named = not word or word in _names_in(seen.answer)
        return named and found >= set(wrong) and not found & set(right)

    return recognise


def _says_nothing(seen: Evidence) -> bool:
    """What does not fit is left alone, and no error tells of it."""
    told = [got.get(LOADS) == LEFT_ALONE for got in (seen.got(_OTHER), seen.got(_OTHER_BARE))]
    return all(told) and _told_by((_OTHER, _OTHER_BARE), (_PLAIN, _BARE, _NAMES, _PART, _ONLY_PART))(seen)


def _takes_anything(seen: Evidence) -> bool:
    """All that fits is loaded, and so is what does not."""
    taken = [got.get(LOADS) == WENT_THROUGH for got in (seen.got(_OTHER), seen.got(_OTHER_BARE))]
    return all(taken) and _told_by((_OTHER, _OTHER_BARE), (_PLAIN, _BARE, _NAMES, _PART, _ONLY_PART))(seen)


LOAD = Exercise(
    name="03.load",
    title="Load weights that were saved from a wrapper, or not",
    judge=by_cases(
        [
            Case(label, args, expected_facts)
            for label, args in {
                _PLAIN: ("plain", True, ""),
                _BARE: ("plain", False, ""),
                _NAMES: ("names", True, ""),
                _PART: ("part", True, ""),
                _ONLY_PART: ("only part", False, ""),
                "a model whose one part is called module, with the prefix": ("only part", True, ""),
                "a model with buffers, a shared weight and a frozen part, with the prefix": (
                    "everything",
                    True,
                    "",
                ),
                "the same model, without the prefix": ("everything", False, ""),
                _OTHER: ("plain", True, "a name"),
                _OTHER_BARE: ("plain", False, "a name"),
                "weights of a model of the same sizes, with the prefix": ("names", True, "all names"),
                "weights of a model of the same sizes, without it": ("names", False, "all names"),
                "names under another prefix, `resnet.`, as long as the wrapper's": ("plain", False, "resnet"),
                "weights of a model that has a `module` within each part, without it": (
                    "names",
                    False,
                    "deeper",
                ),
                "a model with a weight and a part called module, with the prefix": ("both", True, ""),
                _BOTH_BARE: ("both", False, ""),
                "weights of which one has another shape, with the prefix": ("names", True, "a shape"),
                "weights of which one is missing, with the prefix": ("names", True, "missing"),
                "weights of which one is too many, without it": ("plain", False, "one more"),
            }.items()
        ],
        call=facts_of,
        compare=compare_facts,
    ),
    mistakes=(
        Mistake(
            "wrapped-again",
            "Loading into a wrapper works for names with the prefix, and now those without it fail. Whether a model is "
            "wrapped should not matter to a file: bring the names to the bare model's.",
            recognise=_told_by((_BARE,), (_PLAIN, _NAMES, _PART), "DataParallel"),
        ),
        Mistake(
            "not-strict",
            "With the prefix nothing was loaded, and nothing was said: `strict=False` skips every name that does not "
            "fit, and none fits. It hides the symptom. Mend the names.",
            _not_strict,
        ),
        Mistake(
            "mended-and-not-strict",
            "The names are mended. But weights of another model go through: what does not fit has to be an error that "
            "reaches whoever called. `load_state_dict` raises one when it is strict and nobody catches it.",
            recognise=_takes_anything,
        ),
        Mistake(
            "left-alone-in-silence",
            "Weights of another model are left alone, and no error says so: whoever called goes on with the weights "
            "that the model had. Refuse with an error: `load_state_dict` raises one when it is strict, if nobody "
            "catches it.",
            recognise=_says_nothing,
        ),
        Mistake(
            "names-as-they-are",
            "The names still begin with `module.`, and the bare model has none like that. Take the prefix off first.",
            lambda model, saved: model.load_state_dict(saved),
        ),
        Mistake(
            "lstrip",
            "`lstrip('module.')` takes off every leading letter out of m, o, d, u, l, e and the dot, so `module.model` "
            "lost its own name too. `removeprefix('module.')` takes off the word, once.",
            recognise=_told_by((_NAMES,), (_PLAIN,), "lstrip"),
        ),
        Mistake(
            "replaced-everywhere",
            "You took `module.` out wherever it stands, and `encoder.module.weight` is such a name by its own right. "
            "Only the prefix is the wrapper's: `removeprefix`.",
            recognise=_told_by((_PART,), (_PLAIN, _BARE, _NAMES), "replace"),
        ),
        Mistake(
            "cut-always",
            "You cut seven letters off every name, and names without the prefix lost letters of their own. "
            "`removeprefix` leaves those alone.",
            _loading(lambda name: name[len("module.") :], only_if_needed=False),
        ),
        Mistake(
            "never-asked",
            "One model has a part called `module` and was saved bare; you took its own name away. When the names fit "
            "as they are, load them as they are: compare `saved.keys()` with `model.state_dict().keys()` first.",
            recognise=lambda seen: {outcome.case for outcome in seen.wrong} == {_ONLY_PART, _BOTH_BARE},
        ),
    ),
    hints=(
        "Two kinds of names come: those of the bare model, and those of a wrapper that calls the model `module`. How "
        "do you find out which of them came?",
        "If the names are the model's own, load them. Else make a new dictionary whose names have lost the prefix, and "
        "load that, strictly.",
        "`if saved.keys() != model.state_dict().keys(): saved = {name.removeprefix('module.'): tensor for name, tensor "
        "in saved.items()}`, then `model.load_state_dict(saved)`.",
    ),
    passed="Every tensor arrives under its name, whoever saved it; what does not fit is an error, and `saved` stays as "
    "it is.",
)
