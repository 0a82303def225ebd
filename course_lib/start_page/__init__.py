"""``course start`` and ``start()``: what is done, what comes next and why, what is asked again today.

All of it is read from the learner's own progress file, and nothing leaves the machine.

In the order to read:

- ``chosen_path.py``: the path that a learner has chosen, kept with the progress
- ``part_states.py``: which parts are done, begun, or known from a placement
- ``reviews.py``: missed questions, and on which day each is asked again
- ``asked_item.py``: one question as it is asked here, and how an answer that was typed is judged
- ``questions_in_turn.py``: what asks them one after the other
- ``asking_session.py``: questions one after the other, in a notebook or in a terminal
- ``asking_form.py``: the form of such questions
- ``terminal.py``: the same by keyboard, in a terminal
- ``review_session.py``: the questions that are due today
- ``strands.py``: the lessons in strands, and which questions of their quizzes a placement asks
- ``placement_search.py``: a binary search along each strand
- ``placement.py``: ``start(placement=True)``: what can be skipped, by which answer, and what to read first
- ``certificate.py``: a page of a build that has passed
- ``page.py``: the start page, and ``start``
- ``command.py``: the command line of `course start`
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str]) -> int:
    """Run `course start`: 0 where it was shown, 1 where a page cannot be written, 2 for what cannot be asked."""
    from course_lib.start_page import command

    return command.main(argv)
