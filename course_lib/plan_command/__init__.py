"""``course plan``: options (``options.py``), what they ask for (``request.py``, ``layout_words.py``, ``from_trace.py``
by ``trace_rates.py``), ``command.py``, ``one_layout.py``.

The arithmetic is ``course_lib.plan``'s; here it meets words that people type, and pictures.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from course_lib.base.foreign_text import one_line

__all__ = ["main"]


def main(arguments: Sequence[str]) -> int:
    """Print the plan; 0 where something runs, 1 where nothing does, 2 for a wish that cannot be understood."""
    try:
        from course_lib.plan_command.options import parse

        options = parse(arguments)
        from course_lib.plan_command.command import plan  # with numpy, which --help does without

        return plan(options)
    except ValueError as error:
        print(f"course plan: {one_line(error, 2000)}", file=sys.stderr)
        return 2
