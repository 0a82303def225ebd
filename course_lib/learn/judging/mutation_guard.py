"""Guards that an answer does not mutate its arguments: a snapshot before, and what has changed since, in words."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from course_lib.learn.judging.compare import difference
from course_lib.learn.sandbox.call_watcher import unwatched

__all__ = ["PARTS", "Kept"]

PARTS = ("weights", "gradients", "graphs", "flags", "modes", "buffers", "hooks", "settings", "types")
# How some hooks are called, told apart by the hooks' own numbers.
_SUBSETS = ("_with_kwargs", "_always_called")


class Kept:
    """``Kept(model=model, x=x)`` remembers both as they are; ``changes()`` says what is not so any more.

    Of a tensor: its values (weights), its ``requires_grad`` (a flag), its ``.grad`` (gradients), whether autograd
    follows that (graphs), how many hooks it has, and the attributes that somebody hung on it (settings). Of a module:
    the same of its parameters, the mode of each part, the buffers, the hooks of every kind, the dtypes, and the
    settings: the values that its kind of layer is made with, such as ``momentum``, and the names of its other
    attributes. Of an optimizer: its hooks. Lists, tuples and dictionaries are gone through. ``ignore`` names what may
    change, as ``ignore=("weights", "gradients")``. Raises ``ValueError`` for a name that is none of these.
    """

    @unwatched
    def __init__(self, *, ignore: Collection[str] = (), **things: Any) -> None:
        unknown = [part for part in ignore if part not in PARTS]
        if unknown:
            raise ValueError(f"{unknown[0]!r} cannot be ignored; there is {', '.join(PARTS)}")
        self._ignore, self._things = frozenset(ignore), things
        self._before = {name: self._snapshot(thing) for name, thing in things.items()}

    @unwatched
    def changes(self) -> str:
        """The first thing that has changed, as "`model` was left in eval mode"; empty when nothing has."""
        for name, thing in self._things.items():
            if found := _changed(self._before[name], self._snapshot(thing), f"`{name}`"):
                return found
        return ""

    def _snapshot(self, thing: Any) -> Any:
        if _is_a(thing, "Module"):
            return self._of_module(thing)
        if _is_a(thing, "Tensor"):
            return self._of_tensor(thing)
        if _is_a(thing, "Optimizer"):
            return _Parts({} if "hooks" in self._ignore else {"hooks": _num_hooks(thing)})
        if isinstance(thing, Mapping):
            return {key: self._snapshot(value) for key, value in thing.items()}
        if type(thing) in (list, tuple):
            return type(thing)(self._snapshot(value) for value in thing)
        try:
            return copy.deepcopy(thing)
        except Exception:
            return thing  # what cannot be copied is looked at by identity

    def _of_tensor(self, tensor: Any) -> _Parts:
        parts: dict[str, Any] = {"weights": tensor.detach().clone()}
        if tensor.is_leaf:
            parts["flags"] = tensor.requires_grad
            parts["gradients"] = None if tensor.grad is None else tensor.grad.detach().clone()
            parts["graphs"] = _is_followed(tensor)
            parts["hooks"] = _num_hooks(tensor)
        parts["settings"] = dict.fromkeys(vars(tensor), ...)
        return _Parts({part: value for part, value in parts.items() if part not in self._ignore})

    def _of_module(self, module: Any) -> _Parts:
        modules, parameters, buffers = (
            dict(found()) for found in (module.named_modules, module.named_parameters, module.named_buffers)
        )
        parts: dict[str, Callable[[], Any]] = {
            "modes": lambda: {name: one.training for name, one in modules.items()},
            "flags": lambda: {name: one.requires_grad for name, one in parameters.items()},
            "weights": lambda: {name: one.detach().clone() for name, one in parameters.items()},
            "gradients": lambda: {
                name: None if one.grad is None else one.grad.detach().clone() for name, one in parameters.items()
            },
            "buffers": lambda: {name: one.detach().clone() for name, one in buffers.items()},
            "hooks": lambda: {name: _num_hooks(one) for name, one in (*modules.items(), *parameters.items())},
            "graphs": lambda: {name: _is_followed(one) for name, one in parameters.items()},
            "settings": lambda: _settings((*modules.items(), *parameters.items())),
            "types": lambda: {name: one.dtype for name, one in (*parameters.items(), *buffers.items())},
        }
        return _Parts({part: read() for part, read in parts.items() if part not in self._ignore})


class _Parts(dict[str, Any]):
    """What there is to remember of a tensor or of a module, by the names of ``PARTS``."""


def _is_a(thing: Any, name: str) -> bool:
    """Whether it is a ``Module``, a ``Tensor`` or an ``Optimizer`` of torch, without importing torch."""
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    kinds = {"Module": torch.nn.Module, "Tensor": torch.Tensor, "Optimizer": torch.optim.Optimizer}
    return isinstance(thing, kinds[name])


def _num_hooks(thing: Any) -> int:
    """Of a tensor: its gradient's, and those that come once the gradient is there. Of others: of every kind."""
    if _is_a(thing, "Tensor"):
        return sum(len(getattr(thing, kind, None) or ()) for kind in ("_backward_hooks", "_post_accumulate_grad_hooks"))
    return sum(
        len(hooks)
        for kind, hooks in vars(thing).items()
        if "_hooks" in kind and isinstance(hooks, dict) and not kind.endswith(_SUBSETS)
    )


def _is_followed(tensor: Any) -> bool:
    """Whether autograd follows its gradient, which keeps a graph alive."""
    return tensor.grad is not None and tensor.grad.requires_grad


def _settings(named: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """The values that a layer is made with, ``...`` for other attributes, of a module's parts and parameters."""
    found: dict[str, Any] = {}
    for name, part in named:
        made_with = getattr(type(part), "__constants__", ())
        for attribute, value in vars(part).items():
            if not attribute.startswith("_") and attribute != "training":
                found[f"{name}.{attribute}".lstrip(".")] = value if attribute in made_with else ...
    return found


def _changed(before: Any, after: Any, name: str) -> str:
    if isinstance(before, _Parts):
        if not isinstance(after, _Parts):
            return f"{name} is something else now"
        if before.keys() != after.keys():  # of a tensor: a leaf, or a result
            return f"{name} is another tensor now"
        return next((said for part in before if (said := _part(part, before[part], after[part], name))), "")
    if isinstance(before, dict | list | tuple):
        return _changed_items(before, after, name)
    if before is after:
        return ""
    return "" if _same(before, after) else f"{name} has changed: {_moved(before, after)}"


def _changed_items(before: Any, after: Any, name: str) -> str:
    if len(before) != len(after):
        return f"{name} had {len(before)} items and has {len(after)} now"
    places = before if isinstance(before, dict) else range(len(before))
    for place in places:
        try:
            now = after[place]
        except (KeyError, IndexError, TypeError):
            return f"{name} has lost {place!r}"
        if found := _changed(before[place], now, f"{name}[{place!r}]"):
            return found
    return ""


def _part(part: str, before: Any, after: Any, name: str) -> str:
    """One of ``PARTS``: a value, or a dictionary of values by the name within a module."""
    if not isinstance(before, dict):
        return "" if _same(before, after) else _say(part, name, before, after)
    for inner in before.keys() | after.keys():
        if inner not in after or inner not in before:
            what = "the attribute " if part == "settings" else ""
            return f"{name} has {'lost' if inner not in after else 'got'} {what}{inner!r}"
    for inner in before:
        if not _same(before[inner], after[inner]):
            whose = f"{inner!r} of {name}" if inner else name
            return _say(part, whose, before[inner], after[inner])
    return ""


def _same(before: Any, after: Any) -> bool:
    if before is after:
        return True
    if before is None or after is None:
        return False
    return not difference(before, after, relative=0.0, absolute=0.0)


def _say(part: str, name: str, before: Any, after: Any) -> str:
    match part:
        case "modes":
            return f"{name} was left in {'train' if after else 'eval'} mode"
        case "flags":
            return f"{name} was left with requires_grad={after}"
        case "hooks":
            more = after - before
            return f"{name} was left with {abs(more)} {'more' if more > 0 else 'fewer'} hook{'s' * (abs(more) != 1)}"
        case "graphs":
            return f"the .grad of {name} " + ("requires a gradient itself now" if after else "has lost its graph")
        case "settings":
            return f"{name} was left at {after}; it was {before}"
        case "types":
            return f"{name} was left in {after}; it was in {before}"
        case "gradients" if after is None:
            return f"{name} has lost its .grad"
        case "gradients" if before is None:
            return f"{name} has got a .grad"
    whose = f"the .grad of {name}" if part == "gradients" else name
    return f"{whose} has changed: {_moved(before, after)}"


def _moved(before: Any, after: Any) -> str:
    """The first difference, told of one thing at two times."""
    found = difference(before, after, relative=0.0, absolute=0.0)
    return found.replace("expected ", "it was ").replace(", got ", " and is now ")
