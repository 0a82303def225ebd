"""The environment variable by which ``other_arithmetic`` is told what to do."""

from __future__ import annotations

__all__ = ["VARIABLE"]

VARIABLE = "COURSE_ARITHMETIC"
