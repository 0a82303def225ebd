"""``course new``: writes what can be written of an exercise or of a lesson part, and says what is left to do.

In the order to read:

- ``files.py``: files that are written all together, or not at all
- ``names.py``: what is asked for by its name
- ``exercise.py``: the files of a new exercise
- ``part.py``: the files of a new lesson part
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from course_lib.base import paths

__all__ = ["main"]

_HELP = """\
course new exercise 07.name     an exercise of lesson 07: the exercise, its tests, its place in the list
course new part 07d name        a part of lesson 07: its page, its questions, their tests

Nothing that exists is written over. What is left to do is said at the end, file by file; the pages
docs/maintaining/add-an-exercise.md and add-a-lesson-part.md say it at length."""


def main(argv: Sequence[str]) -> int:
    """0 when the files are written, 2 for what cannot be, with a sentence and nothing written."""
    from course_lib.authoring.new import exercise, part
    from course_lib.authoring.new.files import write

    if not argv or argv[0] in ("-h", "--help"):
        print(_HELP)
        return 0
    root = paths.project_root()
    try:
        if paths.is_installed(root):
            raise ValueError(paths.needs_clone("What is new"))
        what, *words = argv
        if what not in ("exercise", "part"):
            raise ValueError(f"there is nothing new called {what!r}; it is one of exercise, part.")
        wanted = 1 if what == "exercise" else 2
        if len(words) != wanted:
            form = "one word, such as 07.name" if wanted == 1 else "two words, such as 07d name"
            raise ValueError(f"`course new {what}` takes {form}; it was given {' '.join(words) or 'none'}.")
        texts, remains = (exercise if what == "exercise" else part).files(root, *words)
        write(root, texts)
    except ValueError as error:
        print(f"course new: {error}", file=sys.stderr)
        return 2
    print("\n".join(f"written: {name}" for name in texts))
    print("Left to do:\n" + "\n".join(f"  {number}. {step}" for number, step in enumerate(remains, 1)))
    return 0
