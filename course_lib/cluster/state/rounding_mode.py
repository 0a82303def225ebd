"""To which neighbour the processor rounds: a mode of the thread, which C's ``fesetround`` changes for good.

Read by arithmetic, since each way leaves its own trace at 1 and at -1. New threads take it from the one that starts
them, and nobody can change it for another thread: so a rank that was left in another mode is replaced.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

from course_lib.cluster.state.setting import Setting

__all__ = ["rounding_mode"]

_ONE, _LITTLE = 1.0, 2.0**-60  # names, so that the sums are made when they are asked for
_MODES = {
    (True, True, True): "to nearest",
    (False, True, True): "upward",
    (True, False, False): "downward",
    (True, False, True): "toward zero",
}
_number_of = {"to nearest": 0}  # what the C library calls a mode; the others differ by processor


def rounding_mode() -> Setting:
    return Setting("the rounding mode", _now, _restore, lambda now: f"the processor's rounding at {now}")


def _now() -> str:
    mode = _MODES[_ONE + _LITTLE == _ONE, _ONE - _LITTLE == _ONE, -_ONE - _LITTLE == -_ONE]
    if mode not in _number_of:
        _number_of[mode] = _library().fegetround()
    return mode


def _restore(wanted: str) -> None:
    """For what this thread has still to do."""
    _library().fesetround(_number_of[wanted])
    raise RuntimeError("its threads may keep the mode that they were started in: such a rank is replaced")


@functools.cache
def _library() -> Any:
    """Whatever holds ``fegetround``: the process itself, or the mathematical library, by the names of Linux."""
    for name in (None, "libm.so.6", "libm.so"):
        try:
            library = ctypes.CDLL(name)
            _ = library.fegetround, library.fesetround
        except (OSError, AttributeError):
            continue
        return library
    raise RuntimeError("no library here has fesetround")
