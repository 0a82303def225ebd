"""Put a saboteur around an answer: around a function, or around each method of a class.

A saboteur is written as ``def name(call, met)``: it gives a function of ``(args, kwargs)`` that makes the call and
spoils something. ``met()`` says that there was something to spoil; where it is never said, the saboteur means nothing
to this answer. The file that holds it is executed anew for each answer, as a learner's cell is: a module of nobody's,
so that it travels to ranks by value, and keeps nothing from one answer to the next.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import linecache
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any

from course_lib.authoring.bench.judging.saboteurs import costs, errors, keeps, narrow, spoils

__all__ = ["SABOTEURS", "Saboteur", "sabotaged"]


@dataclass(frozen=True)
class Saboteur:
    """``name`` as in "kept-by-shape"; ``what`` says in a line what is wrong with the answers that it makes."""

    name: str
    what: str
    module: str
    of_a_call: bool  # it means something to a function; else to a class alone


def _saboteurs() -> dict[str, Saboteur]:
    found = {}
    for module in (keeps, narrow, costs, spoils, errors):
        for function in module.__all__:
            what = (inspect.getdoc(getattr(module, function)) or "").partition("\n")[0].rstrip(".")
            name = function.replace("_", "-")
            found[name] = Saboteur(name, what, module.__name__, function not in keeps.OF_A_CLASS)
    return found


SABOTEURS: dict[str, Saboteur] = _saboteurs()


def sabotaged(saboteur: Saboteur, answer: Any, noted: Path) -> Any:
    """A wrong answer, made of a right one. ``noted`` is a file that is there once something was spoilt.

    None where this saboteur cannot be put around such an answer: a value, or a function where it is for classes.
    """
    if not callable(answer) or not (saboteur.of_a_call or inspect.isclass(answer)):
        return None
    spoil, met = _anew(saboteur), functools.partial(_note, str(noted))
    if not saboteur.of_a_call:
        return spoil(answer, met)
    if not inspect.isclass(answer):
        return _around(spoil, met, answer)
    own = {
        name: _method(spoil, met, member)
        for name, member in vars(answer).items()
        if isinstance(member, FunctionType | staticmethod | classmethod)
        and (not name.startswith("_") or name in ("__init__", "__call__"))
    }
    return type(answer)(answer.__name__, (answer,), {**own, "__module__": answer.__module__, "__doc__": answer.__doc__})


def _note(path: str) -> None:
    with open(path, "a", encoding="utf-8"):
        pass


def _anew(saboteur: Saboteur) -> Callable[..., Any]:
    source = inspect.getsource(importlib.import_module(saboteur.module))
    filename = f"<cell of saboteur {saboteur.name}>"  # a person's code, as a learner's cell is
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(source, filename, "exec", dont_inherit=True), namespace)
    return namespace[saboteur.name.replace("-", "_")]


def _method(spoil: Callable[..., Any], met: Callable[[], None], member: Any) -> Any:
    if isinstance(member, staticmethod | classmethod):
        return type(member)(_around(spoil, met, member.__func__))
    return _around(spoil, met, member)


def _around(spoil: Callable[..., Any], met: Callable[[], None], call: Callable[..., Any]) -> Callable[..., Any]:
    spoilt = spoil(call, met)
    names: dict[str, Any] = {"__name__": "__main__"}
    exec("def around(spoilt):\n    return lambda *args, **kwargs: spoilt(args, kwargs)", names)  # a person's, too
    return functools.wraps(call)(names["around"](spoilt))
