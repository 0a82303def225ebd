"""What asks questions one after the other: the item that is open, what an answer does, and how it ends."""

from __future__ import annotations

from course_lib.start_page.asked_item import AskedItem

__all__ = ["QuestionsInTurn"]


class QuestionsInTurn:
    """What asks: the item that is open, what an answer to it does, and what is said when no item is left."""

    title = ""
    not_known = "I do not know"  # what an empty answer says

    @property
    def item(self) -> AskedItem | None:
        """The question that is asked now; None when there is none left."""
        raise NotImplementedError

    @property
    def count(self) -> str:
        """Which question this is, in words."""
        raise NotImplementedError

    def take(self, text: str) -> str:
        """Judge an answer to the item, keep it, go on to the next, and say what there is to be said.

        An empty text stands for "I do not know". Raises ``ValueError`` for what is no answer; the item stays open.
        """
        raise NotImplementedError

    def conclusion(self) -> list[str]:
        """What is said when no item is left."""
        raise NotImplementedError
