"""What the planner says, in pages of ``docs``: boxes of text, and tables of published runs and numbers.

``course build --plans`` writes them. A box stands between ``<!-- prints: course plan ... -->``,
``<!-- replays: TABLE/MODEL ... -->`` or ``<!-- measured: NAME ... -->``, and ``<!-- printed -->``. Only ``course plan``
is run: it prints the same on every machine.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

from course_lib.authoring.notebooks.writing.measured_box import measured_box
from course_lib.authoring.notebooks.writing.replayed_box import replayed_box

__all__ = ["PRINTING_PAGES", "output_of", "renew_printed", "stale_printed", "with_outputs"]

PRINTING_PAGES = ("docs/ten-plans.md", "docs/at-scale.md")
"""The pages with such boxes."""

_WIDTH = 96
_BOX = re.compile(r"<!-- (?P<kind>prints|replays|measured): (?P<words>[^\n]+?) -->\n.*?<!-- printed -->", re.DOTALL)


def with_outputs(text: str, page: str) -> str:
    """``text`` with each box as its command prints it now, or as published runs and numbers are told.

    Raises:
        ValueError: A page without a box, a box of another command than ``course plan``, or a run or number that there
            is not.
    """
    if not _BOX.search(text):
        raise ValueError(f"{page} holds no box of a command: <!-- prints: course plan ... --> and <!-- printed -->")
    boxes = {"prints": lambda words: _box(words, page), "replays": replayed_box, "measured": measured_box}
    return _BOX.sub(lambda box: boxes[box["kind"]](box["words"]), text)


def output_of(command: str) -> str:
    """What ``course plan ...`` prints, line by line without spaces at the ends."""
    from course_lib.cli import main

    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        main(shlex.split(command)[1:])
    return "\n".join(line.rstrip() for line in said.getvalue().strip().splitlines())


def renew_printed(root: Path) -> list[str]:
    """Write the boxes of those pages that ``root`` has; the names of those that were not up to date."""
    found = _pages(root)
    for page, text in found.items():
        (root / page).write_text(text, encoding="utf-8")
    return list(found)


def stale_printed(root: Path) -> list[str]:
    """The names of pages with a box that its command no longer prints."""
    return list(_pages(root))


def _pages(root: Path) -> dict[str, str]:
    """The pages that are not as they should be, each as it should be."""
    found = {}
    for page in PRINTING_PAGES:
        if (root / page).exists():
            old = (root / page).read_text(encoding="utf-8")
            new = with_outputs(old, page)
            found |= {page: new} if new != old else {}
    return found


def _box(command: str, page: str) -> str:
    if shlex.split(command)[:2] != ["course", "plan"]:
        raise ValueError(f"{page} wants the output of `{command}`; boxes are of `course plan` alone")
    return "\n".join(
        [
            f"<!-- prints: {command} -->",
            "```",
            _as_typed(command),
            "```",
            "",
            "```text",
            output_of(command),
            "```",
            "<!-- printed -->",
        ]
    )


def _as_typed(command: str) -> str:
    """The command as a reader of a clone types it, over several lines where it is long."""
    first, *options = re.split(r" (?=--)", f"./{command}")
    lines = [first]
    for option in options:
        if len(lines[-1]) + len(option) > _WIDTH:
            lines[-1] += " \\"
            lines.append(f"    {option}")
        else:
            lines[-1] += f" {option}"
    return "\n".join(lines)
