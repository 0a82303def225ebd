"""Files that are written all together, or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

__all__ = ["Changed", "write"]


class Changed(str):
    """The text of a file that was there before, with something added."""


def write(root: Path, texts: Mapping[str, str]) -> None:
    """Write the texts below ``root``, by name. Raises ValueError, and writes none, where a new file is there."""
    taken = [name for name, text in texts.items() if not isinstance(text, Changed) and (root / name).exists()]
    if taken:
        raise ValueError(f"{', '.join(taken)} is there already. Nothing was written; give another name.")
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
