"""03.load: the clinic's case, mended. Saved weights whose names may carry a prefix."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.learn.exercise import Case, Exercise, Mistake
from course_lib.learn.judge import by_cases

__all__ = ["LOAD"]

State = dict[str, Tensor]


class _Encoder(nn.Module):
    """A part of the model that, of all names, calls its own part ``module``."""

    def __init__(self) -> None:
        super().__init__()
        self.module = nn.Linear(2, 2)


def _plain() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))


def _with_names_like_it() -> nn.Module:
    """Names that begin with letters of the word: model, decoder, output."""
    return nn.ModuleDict({name: nn.Linear(2, 2) for name in ("model", "decoder", "output")})


def _with_a_part_called_so() -> nn.Module:
    return nn.ModuleDict({"encoder": _Encoder(), "head": nn.Linear(2, 2)})


_MODELS: dict[str, Callable[[], nn.Module]] = {
    "plain": _plain,
    "names": _with_names_like_it,
    "part": _with_a_part_called_so,
    "only part": _Encoder,
}


def _saved(kind: str, wrapped: bool, fits: bool) -> State:
    """A state of this kind of model, all sevens; as saved from the wrapper, or from the model itself."""
    model = _MODELS[kind]()
    state = {name: torch.full_like(tensor, 7.0) for name, tensor in model.state_dict().items()}
    if not fits:
        state["head.scale"] = state.pop(next(iter(state)))
    return {f"module.{name}": tensor for name, tensor in state.items()} if wrapped else state


def _try(answer: Callable[..., Any], kind: str, wrapped: bool, fits: bool) -> dict[str, Any]:
    model, saved = _MODELS[kind](), _saved(kind, wrapped, fits)
    names, raised = list(saved), False
    try:
        answer(model, saved)
    except (RuntimeError, KeyError, ValueError):
        raised = True
    loaded = sum(int((tensor == 7.0).all()) for tensor in model.state_dict().values())
    facts = {
        "an error": "raised" if raised else "none",
        "the model's own names": list(model.state_dict()),
        "names in the saved dictionary afterwards": "as they were" if names == list(saved) else "changed",
    }
    return facts if not fits else {f"tensors loaded, of {len(names)}": loaded, **facts}


def _right(kind: str, wrapped: bool, fits: bool) -> dict[str, Any]:
    model = _MODELS[kind]()
    count = len(model.state_dict())
    facts = {
        "an error": "none" if fits else "raised",
        "the model's own names": list(model.state_dict()),
        "names in the saved dictionary afterwards": "as they were",
    }
    return facts if not fits else {f"tensors loaded, of {count}": count, **facts}


def _loading(
    rename: Callable[[str], str], *, strict: bool = True, only_if_needed: bool = True
) -> Callable[[nn.Module, State], None]:
    def load(model: nn.Module, saved: State) -> None:
        if not (only_if_needed and saved.keys() == model.state_dict().keys()):
            saved = {rename(name): tensor for name, tensor in saved.items()}
        model.load_state_dict(saved, strict=strict)

    return load


def _into_a_wrapper(model: nn.Module, saved: State) -> None:
    nn.DataParallel(model).load_state_dict(saved)


def _names_in(answer: Any) -> tuple[str, ...]:
    """What the code of an answer mentions."""
    code = getattr(answer, "__code__", answer)
    if not isinstance(code, CodeType):
        return ()
    return code.co_names + tuple(
        name for part in code.co_consts for name in _names_in(part)
    )  # comprehensions


def _lstrip(model: nn.Module, saved: State) -> None:
    model.load_state_dict({name.lstrip("module."): tensor for name, tensor in saved.items()})


def _replace(model: nn.Module, saved: State) -> None:
    model.load_state_dict({name.replace("module.", ""): tensor for name, tensor in saved.items()})


def _not_strict(model: nn.Module, saved: State) -> None:
    model.load_state_dict(saved, strict=False)


LOAD = Exercise(
    name="03.load",
    title="Load weights that were saved from a wrapper, or not",
    judge=by_cases(
        [
            Case("names with the prefix", ("plain", True, True), _right),
            Case("names without it", ("plain", False, True), _right),
            Case("a model, a decoder and an output, with the prefix", ("names", True, True), _right),
            Case("a model with an encoder.module, with the prefix", ("part", True, True), _right),
            Case(
                "a model whose one part is called module, without the prefix",
                ("only part", False, True),
                _right,
            ),
            Case("weights of another model, with the prefix", ("plain", True, False), _right),
        ],
        call=_try,
    ),
    mistakes=(
        Mistake(
            "wrapped-again",
            "Loading into a wrapper works for names with the prefix, and now those without it fail. Whether a model is "
            "wrapped should not matter to a file: bring the names to the bare model's.",
            _into_a_wrapper,
            recognise=lambda seen: "DataParallel" in _names_in(seen.answer),
        ),
        Mistake(
            "not-strict",
            "Nothing was loaded, and nothing was said: `strict=False` skips every name that does not fit, and none "
            "fits. It hides the symptom. Mend the names.",
            _not_strict,
        ),
        Mistake(
            "mended-and-not-strict",
            "The names are mended. But weights of another model are now taken without a word: leave `strict` as it is, "
            "so that what does not fit is an error.",
            _loading(lambda name: name.removeprefix("module."), strict=False),
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
            _lstrip,
            recognise=lambda seen: "lstrip" in _names_in(seen.answer),
        ),
        Mistake(
            "replaced-everywhere",
            "You took `module.` out wherever it stands, and `encoder.module.weight` is such a name by its own right. "
            "Only the prefix is the wrapper's: `removeprefix`.",
            _replace,
            recognise=lambda seen: "replace" in _names_in(seen.answer),
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
            _loading(lambda name: name.removeprefix("module."), only_if_needed=False),
        ),
    ),
    hints=(
        "Two kinds of names come: those of the bare model, and those of a wrapper that calls the model `module`. How "
        "do you tell which?",
        "If the names are the model's own, load them. Else make a new dictionary whose names have lost the prefix, and "
        "load that, strictly.",
        "`if saved.keys() != model.state_dict().keys(): saved = {name.removeprefix('module.'): tensor for name, tensor "
        "in saved.items()}`, then `model.load_state_dict(saved)`.",
    ),
    passed="Every tensor arrives, whoever saved it, and what does not fit is an error.",
)
