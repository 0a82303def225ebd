"""``course class``: what an instructor with a class on one machine asks for, a word each.

In the order to read:

- ``share/``: What a learner shares with the class: one file
- ``board/``: The board of a class: what learners share, gathered, counted, drawn
- ``kept/``: What learners have built and kept, as a list and as text
- ``slides/``: Slides, speaker notes and a handout of a class plan
- ``trial/``: A class on trial: how many fit on a machine, tried with kernels that work
"""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Sequence

__all__ = ["WORDS", "main"]

WORDS = {
    "check": (
        "course_lib.classroom.trial.command",
        "how many learners fit on this machine, and what is blocked",
    ),
    "board": (
        "course_lib.classroom.board.command",
        "a page for the projector: where the class is, and what it bets",
    ),
    "mine": (
        "course_lib.classroom.kept.command",
        "which functions of their own learners have kept, and their text",
    ),
    "slides": (
        "course_lib.classroom.slides.command",
        "slides of a class plan, with speaker notes on a page of their own",
    ),
    "handout": (
        "course_lib.classroom.slides.handout",
        "the pictures and questions of a class plan, to print, without answers",
    ),
    "share": (
        "course_lib.classroom.share.command",
        "copy your own progress into a folder of the instructor's",
    ),
}
_HELP = {"-h", "--help", "help"}
_LOOKING = "course class check: looking at this machine. It takes seconds; minutes beside other work, or with --trial."


def _help() -> str:
    width = max(map(len, WORDS))
    lines = [f"    course class {word:<{width}}  {summary}" for word, (_, summary) in WORDS.items()]
    return "\n".join(["For a class on one machine:", "", *lines, "", "`course class WORD --help` tells more."])


def main(argv: Sequence[str]) -> int:
    """Hand the command line on to the word's own module; 2 for a word that there is not."""
    words = list(argv)
    if not words or words[0] in _HELP:
        print(_help())
        return 0
    if words[0] not in WORDS:
        near = difflib.get_close_matches(words[0].lower().lstrip("-"), WORDS, n=1, cutoff=0.5)
        guess = f" Did you mean `course class {near[0]}`?" if near else ""
        print(f"course class: there is no {words[0]!r}; there are {', '.join(WORDS)}.{guess}", file=sys.stderr)
        return 2
    if words[0] == "check" and not _HELP & set(words):  # before the imports: they alone take long on a busy machine
        print(_LOOKING, file=sys.stderr, flush=True)
    return int(importlib.import_module(WORDS[words[0]][0]).main(words[1:]) or 0)
