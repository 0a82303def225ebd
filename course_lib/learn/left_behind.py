"""Switches of this process that an answer has turned and not turned back: said by name, and put back for it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

__all__ = ["put_back"]

_OF_OTHERS = ("the alarm clock", "the handler of SIGALRM")  # the time limit of the check looks after them


@contextlib.contextmanager
def put_back() -> Iterator[list[str]]:
    """The list fills when the block ends: "left gradients switched off", "left the working folder at '/'".

    Nothing is looked at before torch is there, since its switches are most of them.
    """
    said: list[str] = []
    if "torch" not in sys.modules:
        yield said
        return
    from course_lib.cluster.surroundings import Surroundings

    surroundings = Surroundings(without=_OF_OTHERS)
    try:
        yield said
    finally:
        said += surroundings.tidy()
