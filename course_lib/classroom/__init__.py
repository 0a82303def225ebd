"""``course class``: for who teaches a class on a shared machine. One word more, handed on to the module that does it.

``check_command.py``, the evening before; in this order:

- ``node.py``: what this machine lets a class have, and has left
- ``taken.py``: what a learner takes, by a recorded trial
- ``room.py``: how many fit, by what formula, and which limit is met first
- ``lessons_here.py``: which lessons are blocked here, and why
- ``advice.py``: what to change
- ``page.py``: all of it as lines that people read
- ``trial.py``: a class that works at once; ``seat.py`` a learner's place in it, ``watch.py`` what they take,
  ``server.py`` a JupyterLab, ``trial_record.py`` what is kept of it
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import sys
from collections.abc import Sequence

__all__ = ["WORDS", "main"]

WORDS = {
    "check": (
        "course_lib.classroom.check_command",
        "how many learners fit on this machine, and what is blocked",
    ),
    "board": (
        "course_lib.classroom.board_command",
        "a page for the projector, from the progress that learners share",
    ),
    "share": (
        "course_lib.classroom.share_command",
        "put your own progress where the instructor's board looks",
    ),
}
_HELP = {"-h", "--help", "help"}


def main(argv: Sequence[str]) -> int:
    """Run one word of the verb and return its exit code: 2 for a word that is unknown, or not there yet."""
    words = list(argv)
    if not words or words[0] in _HELP:
        print(_help())
        return 0
    if words[0] not in WORDS:
        near = difflib.get_close_matches(words[0].lower().lstrip("-"), WORDS, n=1, cutoff=0.5)
        guess = f" Did you mean `course class {near[0]}`?" if near else ""
        print(
            f"course class: there is no word {words[0]!r}; there are {', '.join(WORDS)}.{guess}",
            file=sys.stderr,
        )
        return 2
    home = WORDS[words[0]][0]
    if importlib.util.find_spec(home) is None:
        there = [word for word, (module, _) in WORDS.items() if importlib.util.find_spec(module)]
        print(
            f"course class: `{words[0]}` is not part of this edition of the course; there are {', '.join(there)}.",
            file=sys.stderr,
        )
        return 2
    return int(importlib.import_module(home).main(words[1:]) or 0)


def _help() -> str:
    width = max(map(len, WORDS))
    lines = [f"    course class {word:<{width}}  {about}" for word, (_, about) in WORDS.items()]
    return "\n".join(["For who teaches a class on a shared machine.", "", *lines, "", "Each has its --help."])
