"""The same questions by keyboard, in a terminal: a letter or a number and Enter, Enter alone, or q to stop."""

from __future__ import annotations

from collections.abc import Callable

from course_lib.start_page.questions_in_turn import QuestionsInTurn

__all__ = ["ask_in_terminal"]


def ask_in_terminal(
    session: QuestionsInTurn, *, read: Callable[[str], str] | None = None, tell: Callable[[str], None] = print
) -> bool:
    """Ask until no item is left; False where the learner stops before, by q or by the end of the input."""
    read = read or input
    tell(f"{session.title}. Enter alone says: {session.not_known}. q stops.")
    while (item := session.item) is not None:
        tell("\n".join(["", session.count, *item.lines()]))
        while session.item is item:
            try:
                text = read(f"{item.how} > ").strip()
            except EOFError:
                tell("")
                return False
            if text.casefold() == "q":
                return False
            try:
                tell(session.take(text))
            except ValueError as error:
                tell(f"✗ {error}")
    tell("\n".join(["", *session.conclusion()]))
    return True
