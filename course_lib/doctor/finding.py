"""One line of the doctor's report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Finding", "Status"]

Status = Literal["ok", "warning", "blocked"]


@dataclass(frozen=True)
class Finding:
    """One line: ``detail`` is what was found, ``remedy`` what to do about it ("" where all is well)."""

    name: str
    status: Status
    detail: str
    remedy: str = ""
