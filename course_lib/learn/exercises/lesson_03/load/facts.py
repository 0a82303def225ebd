"""The models and the files of 03.load: names with a prefix, files that are not this model's, and what a load did."""

from __future__ import annotations

import textwrap
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.learn.judging.kept_references import Traces
from course_lib.learn.judging.mutation_guard import PARTS, Kept

__all__ = ["LEFT_ALONE", "LOADS", "WENT_THROUGH", "State", "expected_facts", "facts_of"]

State = dict[str, Tensor]

LOADS, WENT_THROUGH, _ENDS = "the load", "went through", "ended in an error"
LEFT_ALONE = "raised no error, and loaded nothing"
_VALUES, _TENSORS = "tensors that hold what was saved under their name", "the model's tensors"
_NAMES, _SAVED, _REST = (
    "the model's own names",
    "the saved dictionary afterwards",
    "the rest of the model",
)
_BESIDES, _NOTHING = "what your code does besides", "nothing"
_AS_IT_WAS, _LONGEST = "as it was", 200  # characters of an error that are shown


class _Encoder(nn.Module):
    """A part of the model that, of all names, calls its own part ``module``."""

    def __init__(self) -> None:
        super().__init__()
        self.module = nn.Linear(2, 2)


class _Both(nn.Module):
    """A ``weight`` of its own, and one in a part called ``module``: a name with the prefix is a name of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.module = nn.Linear(2, 2)
        self.weight = nn.Parameter(torch.ones(2, 2))


def _plain() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))


def _with_names_like_it() -> nn.Module:
    """Names that begin with letters of the word: model, decoder, output."""
    return nn.ModuleDict({name: nn.Linear(2, 2) for name in ("model", "decoder", "output")})


def _with_a_part_called_so() -> nn.Module:
    return nn.ModuleDict({"encoder": _Encoder(), "head": nn.Linear(2, 2)})


def _with_everything() -> nn.Module:
    """Buffers, a shared weight, a frozen part, a part in evaluation."""
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Dropout(0.5), nn.Linear(2, 2))
    model[3].weight = model[0].weight
    model[3].bias.requires_grad_(False)
    model[2].eval()
    next(model.parameters()).grad = torch.ones(2, 2)
    model.register_buffer("seen_s", torch.zeros(2, dtype=torch.float64))
    return model


_MODELS: dict[str, Callable[[], nn.Module]] = {
    "plain": _plain,
    "names": _with_names_like_it,
    "part": _with_a_part_called_so,
    "only part": _Encoder,
    "both": _Both,
    "everything": _with_everything,
}


def _renamed(state: State) -> None:
    state["head.scale"] = state.pop(next(iter(state)))


def _one_missing(state: State) -> None:
    del state[list(state)[-1]]


def _another_shape(state: State) -> None:
    """One that would be spread over the model's by broadcasting."""
    name = list(state)[-1]
    state[name] = state[name][:1]


def _one_more(state: State) -> None:
    state["head.scale"] = torch.zeros(2)


def _under(prefix: str) -> Callable[[State], None]:
    """All names under a prefix that no wrapper gives."""

    def rename(state: State) -> None:
        for name in list(state):
            state[f"{prefix}{name}"] = state.pop(name)

    return rename


def _one_part_deeper(state: State) -> None:
    """The word within the names, where the model has none: ``head.module.weight`` is another model's."""
    for name in list(state):
        state[name.replace(".", ".module.", 1)] = state.pop(name)


_DAMAGES: dict[str, Callable[[State], None]] = {
    "": lambda state: None,
    "a name": _renamed,
    "missing": _one_missing,
    "a shape": _another_shape,
    "one more": _one_more,
    "all names": _under("other."),  # as many tensors, of the same sizes in the same order
    "resnet": _under("resnet."),  # as long as the wrapper's prefix
    "deeper": _one_part_deeper,
}


def _saved(kind: str, wrapped: bool, damage: str) -> State:
    """A state of this kind of model, as saved from the wrapper or from the model, in the model's order."""
    model = _MODELS[kind]()
    places = {id(tensor): 1.0 + place for place, tensor in enumerate(model.state_dict(keep_vars=True).values())}
    state = {name: _filled(tensor, places[id(tensor)]) for name, tensor in model.state_dict(keep_vars=True).items()}
    _DAMAGES[damage](state)
    prefix = "module." if wrapped else ""
    return OrderedDict((prefix + name, tensor) for name, tensor in state.items())


def _filled(tensor: Tensor, place: float) -> Tensor:
    """A tensor like this one, with a value that no narrower type can hold where its own is a wide one."""
    exact = {torch.int64: 2 * place + 2**24 - 1, torch.float64: place + 2.0**-40}  # float32 rounds them
    return torch.full_like(tensor, exact.get(tensor.dtype, place)).detach()


def facts_of(answer: Callable[..., Any], kind: str, wrapped: bool, damage: str) -> dict[str, Any]:
    """What became of the model and of what was saved."""
    model, saved = _MODELS[kind](), _saved(kind, wrapped, damage)
    own, names = [*model.parameters(), *model.buffers()], list(model.state_dict())
    parts, kept = Kept(ignore=("weights", "buffers"), model=model), Kept(saved=saved)
    order, ended, traces = list(saved), WENT_THROUGH, Traces((saved,))
    grads = [parameter.grad for parameter in model.parameters()]
    values = Kept(model=model, ignore=[part for part in PARTS if part not in ("weights", "buffers")])
    try:
        answer(model, saved)
    except (RuntimeError, LookupError, ValueError, AssertionError) as error:
        words = textwrap.shorten(f"{type(error).__name__}: {error}", _LONGEST, placeholder=" ...")
        ended = _ENDS if damage else f"ended in {words}"
    if damage and ended == WENT_THROUGH and not values.changes():
        ended = LEFT_ALONE
    facts = {LOADS: ended, _NAMES: list(model.state_dict())}
    changed = kept.changes() or ("" if order == list(saved) else "its names stand in another order")
    facts |= {_SAVED: changed or _AS_IT_WAS, _REST: parts.changes() or _AS_IT_WAS}
    facts[_BESIDES] = traces.found(None) or _NOTHING
    if not damage and list(model.state_dict()) == names:
        right = _saved(kind, False, "")
        loaded = [name for name, tensor in model.state_dict().items() if torch.equal(tensor, right[name])]
        facts[_VALUES] = f"{len(loaded)} of {len(names)}"
        facts[_TENSORS] = _tensors(model, own, saved)
        if any(p.grad is not grad for p, grad in zip(model.parameters(), grads, strict=True)):
            facts[_REST] = "the .grad of a parameter is another tensor than before"
    return facts


def _tensors(model: nn.Module, own: list[Tensor], saved: State) -> str:
    now = [*model.parameters(), *model.buffers()]
    taken = {tensor.data_ptr() for tensor in saved.values()}
    if any(tensor.data_ptr() in taken for tensor in now):
        return "lie in the memory of those that were saved: a step of training would change the saved ones"
    if len(now) != len(own) or any(a is not b for a, b in zip(now, own, strict=True)):
        return "are others than before: an optimizer that was made earlier would train the old ones"
    return "its own"


def expected_facts(kind: str, wrapped: bool, damage: str) -> dict[str, Any]:
    names = list(_MODELS[kind]().state_dict())
    facts = {
        LOADS: _ENDS if damage else WENT_THROUGH,
        _NAMES: names,
        _SAVED: _AS_IT_WAS,
        _REST: _AS_IT_WAS,
        _BESIDES: _NOTHING,
    }
    return facts if damage else {**facts, _VALUES: f"{len(names)} of {len(names)}", _TENSORS: "its own"}
