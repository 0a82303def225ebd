"""Switches of this process that an answer has turned and not turned back: said by name, and put back for it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

__all__ = [
    "GRADIENTS_OFF",
    "LEFT",
    "LEFT_BEHIND",
    "RIGHT_BUT_OFF",
    "gradients_left_off",
    "put_back",
    "right_but",
]

_OF_OTHERS = ("the alarm clock", "the handler of SIGALRM")  # the time limit of the check looks after them

GRADIENTS_OFF = "left gradients switched off"
LEFT = "LeftBehind"  # the kind of an error that a judge's own line met, since an answer had left something


def right_but(what: str) -> str:
    """The difference of a case in which nothing but this is wrong."""
    return f"the result is right, and your code {what}"


LEFT_BEHIND = right_but("left something behind")  # on ranks
RIGHT_BUT_OFF = right_but(GRADIENTS_OFF)


@contextlib.contextmanager
def gradients_left_off() -> Iterator[list[str]]:
    """The list fills where the block leaves gradients off that were on, and they are on again after it.

    An error that leaves the block gets a note of it: a judge's own line may have met what an answer left.
    """
    said: list[str] = []
    torch = sys.modules.get("torch")
    if torch is None:  # nobody waits for an import that no answer has asked for
        yield said
        return
    were_on = torch.is_grad_enabled()
    try:
        yield said
    except Exception as error:
        if were_on and not torch.is_grad_enabled():
            error.add_note(GRADIENTS_OFF)
        raise
    finally:
        if were_on and not torch.is_grad_enabled():
            said.append(GRADIENTS_OFF)
            torch.set_grad_enabled(True)


@contextlib.contextmanager
def put_back() -> Iterator[list[str]]:
    """The list fills when the block ends: "left gradients switched off", "left the working folder at '/'".

    Nothing is looked at before torch is there, since its switches are most of them.
    """
    said: list[str] = []
    if "torch" not in sys.modules:
        yield said
        return
    from course_lib.cluster.state.process_state import ProcessState
    from course_lib.devices import seated

    with contextlib.suppress(ValueError):  # a COURSE_GPUS that cannot be obeyed: the first cluster says so
        seated(0)  # it sets variables of the environment, and would do so within the block
    surroundings = ProcessState(without=_OF_OTHERS)
    try:
        yield said
    finally:
        said += surroundings.tidy()
