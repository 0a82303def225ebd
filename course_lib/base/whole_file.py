"""A file that is written in one step: a reader meets the old file or the new one, and never half of it."""

from __future__ import annotations

from pathlib import Path

__all__ = ["write_named", "write_whole"]


def write_whole(path: Path, content: bytes) -> None:
    """Write the file, by a draft beside it. Raises OSError where it cannot be written."""
    draft = path.with_name(f".{path.name}.partial")
    draft.write_bytes(content)
    draft.replace(path)


def write_named(option: str, path: Path, content: bytes) -> None:
    """Write a file that a person named by this option. Raises ValueError with a sentence where it cannot be."""
    try:
        write_whole(path, content)
    except OSError as error:
        raise ValueError(f"{option} {path} cannot be written: {error.strerror}.") from None
