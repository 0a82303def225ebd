"""A stand-in for ipywidgets where it is missing: controls that hold a value and tell of its change, and show nothing.

A lesson that runs as a script makes its explorers, which then compute what they would show. What a browser would draw
is not tried here.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any


class Widget:
    """Any control: its options are attributes, its children the first argument, and ``observe`` works."""

    value: Any = ""
    children: Any = ()
    disabled = False

    def __init__(self, *args: Any, **options: Any) -> None:
        self.__dict__["_listeners"] = []
        if args:
            options.setdefault("children" if isinstance(args[0], list | tuple) else "value", args[0])
        self.layout: Any = SimpleNamespace()
        self.style: Any = SimpleNamespace()
        if options.get("options") and "value" not in options:
            first = next(iter(options["options"]))
            options["value"] = first[1] if isinstance(first, tuple) else first
        for name, given in options.items():
            setattr(
                self,
                name,
                SimpleNamespace(**given) if name in ("layout", "style") and isinstance(given, dict) else given,
            )

    def __setattr__(self, name: str, new: Any) -> None:
        old = getattr(self, name, None)
        object.__setattr__(self, name, new)
        if not isinstance(new, SimpleNamespace) and old != new:
            for listener, names in tuple(self.__dict__.get("_listeners", ())):
                if names is None or name in names:
                    listener(SimpleNamespace(name=name, old=old, new=new, owner=self))

    def observe(self, listener: Callable[..., Any], names: Any = None) -> None:
        """Call ``listener(change)`` when one of the names changes."""
        self._listeners.append((listener, (names,) if isinstance(names, str) else names))

    def on_click(self, listener: Callable[..., Any]) -> None:
        """Nobody clicks in a script."""

    on_submit = on_click

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **options: None  # add_class, set_title and their like


def link(one: tuple[Widget, str], other: tuple[Widget, str]) -> None:
    """The same value on both sides, whichever changes."""
    for (source, name), (target, place) in ((one, other), (other, one)):
        source.observe(lambda change, target=target, place=place: setattr(target, place, change.new), name)


jslink = link


def __getattr__(name: str) -> Any:
    if not name[:1].isupper():
        raise AttributeError(f"this stand-in for ipywidgets has no {name!r}")
    made = type(name, (Widget,), {"__doc__": "One of ipywidgets' controls."})
    globals()[name] = made
    return made
