"""Python files as entries: docstrings of public names, and sentences that the library says.

Files are read as text and not parsed: a search has to look through all of them, and most have none of its words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from course_lib.search.entry import SearchEntry

__all__ = ["code_entries"]

_HEADER = re.compile(r"^(?P<indent> *)(?:async )?(?P<kind>def|class) (?P<name>\w+)")
_DOCSTRING = re.compile(r'^ *r?"""(?P<text>.*?)"""', re.DOTALL | re.MULTILINE)
_TRIPLE = re.compile(r'"""(.*?)"""', re.DOTALL)
_STRINGS = re.compile(r'(?:\b[frFR]{1,2})?"(?:[^"\\\n]|\\.)*"(?:\s*(?:\b[frFR]{1,2})?"(?:[^"\\\n]|\\.)*")*')
_PIECE = re.compile(r'(?P<kind>\b[frFR]{1,2})?"(?P<text>(?:[^"\\\n]|\\.)*)"')
_FILLED_IN = re.compile(r"\{[^{}]*\}")
_LETTERS = re.compile(r"[A-Za-z]{2,}")
_FEWEST_WORDS = 6  # a sentence, and not a label


def code_entries(text: str, file: str) -> list[SearchEntry]:
    """What of a file can be found; its module is named as it is imported."""
    module = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    found = [SearchEntry("library", module, name, said, file, line) for line, name, said in _docstrings(text)]
    return found + [SearchEntry("message", module, "", said, file, line) for line, said in _sentences(text)]


def _docstrings(text: str) -> Iterator[tuple[int, str, str]]:
    """Line, name and text of the docstrings of the module and of its public names, methods with their class."""
    lines = text.splitlines()
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    above: list[tuple[int, str]] = []  # indent and name of the classes and functions around
    is_header_open = True  # the module itself
    for number, line in enumerate(lines):
        if found := _HEADER.match(line):
            indent = len(found["indent"])
            above = [*(one for one in above if one[0] < indent), (indent, found["name"])]
            is_header_open = True
        bare = line.strip()
        if is_header_open and bare.startswith(('"""', 'r"""')):
            is_header_open = False
            names = [name for _, name in above]
            docstring = _DOCSTRING.match(text, starts[number])
            if docstring and not any(name.startswith("_") for name in names):
                yield number + 1, ".".join(names), docstring["text"].strip()
        elif bare and not found and not bare.endswith((":", ",", "(")) and not bare.startswith(("#", ")")):
            is_header_open = False  # a header of several lines goes on; this is the body


def _sentences(text: str) -> Iterator[tuple[int, str]]:
    """Line and text of strings that are sentences; what is filled in when they are said is written "…"."""
    bare = _TRIPLE.sub(lambda found: "\n" * found[0].count("\n"), text)
    for found in _STRINGS.finditer(bare):
        pieces = [
            _FILLED_IN.sub("…", piece["text"]) if "f" in (piece["kind"] or "").lower() else piece["text"]
            for piece in _PIECE.finditer(found[0])
        ]
        said = " ".join("".join(pieces).replace("\\n", " ").replace('\\"', '"').split())
        if len(_LETTERS.findall(said)) >= _FEWEST_WORDS:
            yield bare.count("\n", 0, found.start()) + 1, said
