"""A text that somebody else wrote, so that it can neither steer a terminal nor pass for another text on a page.

Whatever comes out of a file of another person goes through here before it is printed: names, answers, what a file is
called. An escape sequence (ESC ...) would move the cursor, set the window's title or type an answer for the reader; a
sign that turns the direction of writing (U+202E) shows a text back to front; signs without width make two names look
like one.

Sources: ECMA-48, "Control functions"; Unicode Standard Annex 9, "Bidirectional algorithm", section 2; Unicode Technical
Report 36, "Security considerations".
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any

__all__ = ["cleaned", "is_plain", "on_a_page", "one_line"]

LONGEST = 200  # signs of a text on one line; nobody reads more of it there
_BLANK = frozenset("\u115f\u1160\u2800\u3164\uffa0")  # letters, by their kind, that show nothing
_CHOOSES_A_SHAPE = re.compile("[\u034f\u180b-\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_MARKS = 4  # above and below one letter; more of them reach into the lines around
_STEERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_DEEPEST = 8


def one_line(text: object, most: int = LONGEST) -> str:
    """The text on one line of at most ``most`` signs, all of them to be seen. What was a control is a "?".

    >>> one_line("\\x1b[2Jme\\u202e\\n")
    '?[2Jme'
    """
    words = str(text)[: 20 * most]
    shown = "".join(_seen(words))
    shown = " ".join(shown.split())
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def is_plain(text: str) -> bool:
    """Whether a text is on one line already, and shows all that is in it."""
    return one_line(text) == text


def on_a_page(text: str) -> str:
    """A text of several lines without controls and without turns of direction; "\ufffd" stands in their place."""
    return _STEERS.sub("\ufffd", text)


def cleaned(value: Any, most: int = LONGEST) -> Any:
    """The same value as JSON has them, with every text in it on one line; keys too. Deeper than eight: its text."""
    return _cleaned(value, most, _DEEPEST)


def _cleaned(value: Any, most: int, deep: int) -> Any:
    if isinstance(value, str):
        return one_line(value, most)
    if isinstance(value, dict | list) and not deep:
        return "…"
    if isinstance(value, dict):
        return {one_line(key, most): _cleaned(one, most, deep - 1) for key, one in value.items()}
    if isinstance(value, list):
        return [_cleaned(one, most, deep - 1) for one in value]
    return value


def _seen(text: str) -> list[str]:
    """Each sign, or what stands for it: a space, a "?", or nothing for signs without width."""
    found, marks = [], 0
    for sign in _CHOOSES_A_SHAPE.sub("", text):
        kind = unicodedata.category(sign)
        marks = marks + 1 if kind in ("Mn", "Me") else 0
        if sign.isspace() or sign in _BLANK or kind in ("Zl", "Zp", "Zs"):
            found.append(" ")
        elif kind == "Cf" or marks > _MARKS:
            continue
        else:
            found.append("?" if kind in ("Cc", "Cs", "Co", "Cn") else sign)
    return found
