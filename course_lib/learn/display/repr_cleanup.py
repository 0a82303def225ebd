"""Names in place of what Python shows of an object: no memory address, and no long list, stands in a message."""

from __future__ import annotations

import re

__all__ = ["folded"]

_LONGEST = 200  # characters of a list or a dictionary; a longer one is folded
_BEGINNING = 120  # characters of it that stay
_CLOSING = {"[": "]", "{": "}"}

_QUALIFIED = r"(?:[\w.]|<locals>|<lambda>)*"  # __main__.f.<locals>.
_NAMES = (
    (re.compile(rf"<function {_QUALIFIED}<lambda> at 0x[0-9a-f]+>"), "a lambda"),
    (re.compile(rf"<function (?:{_QUALIFIED}\.)?(\w+) at 0x[0-9a-f]+>"), r"the function \1"),
    (re.compile(rf"<bound method (?:{_QUALIFIED}\.)?(\w+) of [^<>]*(?:<[^<>]*>)?[^<>]*>"), r"the method \1"),
    (re.compile(r"<built-in (?:function|method) (\w+)[^<>]*(?:<[^<>]*>)?[^<>]*>"), r"the function \1"),
    (re.compile(rf"<generator object (?:{_QUALIFIED}\.)?(?:\w+|<\w+>) at 0x[0-9a-f]+>"), "a generator"),
    (re.compile(rf"<(?:{_QUALIFIED}\.)?(\w+) object at 0x[0-9a-f]+>"), r"a \1 object"),
    (re.compile(rf"<class '(?:{_QUALIFIED}\.)?(\w+)'>"), r"the class \1"),
    (re.compile(r" at 0x[0-9a-f]{6,}"), ""),
)


def folded(text: str) -> str:
    """``text`` with a name for each function, class and object, and with long lists and dictionaries cut short."""
    if "<" in text or " at 0x" in text:
        for pattern, name in _NAMES:
            text = pattern.sub(name, text)
    return _cut(text) if len(text) > _LONGEST else text


def _cut(text: str) -> str:
    kept, at = [], 0
    while at < len(text):
        end = _end_of(text, at) if text[at] in _CLOSING else at
        if end - at > _LONGEST:
            beginning = text[at : at + _BEGINNING]
            kept.append(beginning[: beginning.rfind(",")] if "," in beginning else beginning)
            kept.append(f", ... {_CLOSING[text[at]]}")
            at = end
        else:
            kept.append(text[at : end + 1])
        at = end + 1
    return "".join(kept)


def _end_of(text: str, start: int) -> int:
    """The place of the bracket that closes the one at ``start``; ``start`` where there is none."""
    depth = 0
    for place in range(start, len(text)):
        depth += (text[place] in "[{") - (text[place] in "]}")
        if depth == 0:
            return place
    return start
