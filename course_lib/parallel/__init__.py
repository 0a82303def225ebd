"""Every way to share work among ranks, written from scratch to be read; production code uses PyTorch's own.

Names load when they are first used, so that what is data (a schedule, a placement) can be read without torch.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOME_OF = {
    "RECORDABLE": "recording",
    "record": "recording",
}

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"course_lib.parallel has no name {name!r}; it offers {', '.join(__all__)}")
    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
