"""The file that a learner shares: a first line that says what it is, then events, with what a board counts of them.

The file's name and the learner's number are drawn by lot once, so that neither says who it is. No code, no claim of the
learner's own and no path is in it: an event keeps the fields of ``FIELDS``, and nothing else.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from course_lib.base.foreign_text import one_line

__all__ = [
    "FIELDS",
    "FORMAT",
    "Identity",
    "clean_alias",
    "file_name",
    "identity",
    "number_of",
    "text_of",
    "write",
]

FORMAT = 1
"""Raise by one when an older course could no longer count the file right."""

FIELDS = frozenset(
    {
        *(
            "time",
            "event",
            "name",
            "status",
            "mistake",
            "step",
            "right",
            "tries",
            "kind",
            "unit",
            "off",
            "value",
        ),
        *("predicted", "model", "measured", "label", "verdict", "sure", "blocked", "course"),
    }
)
_OWN_CLAIMS = "13.Y"
# Of the learner's start page: which path was chosen, what was asked once more, what a placement found.
_AT_HOME = {"shared", "path", "placement", "review"}
_LONGEST_ALIAS = 24
_KEPT_IN = "sharing.json"


@dataclass(frozen=True)
class Identity:
    """Who shares: a word drawn by lot, and a name only where the learner gave one."""

    id: str
    alias: str = ""


def number_of(word: str) -> int:
    """The four digits by which a board calls somebody without an alias."""
    import hashlib

    return 1000 + int.from_bytes(hashlib.sha256(word.encode()).digest()[:4], "big") % 9000


def clean_alias(text: str) -> str:
    """The alias on one line, without signs that cannot be seen. Raises ``ValueError`` for one that is too long."""
    alias = one_line(text)
    if len(alias) > _LONGEST_ALIAS:
        raise ValueError(
            f"--name {alias!r} has {len(alias)} letters; an alias has {_LONGEST_ALIAS} at most, such as "
            f"{alias[:_LONGEST_ALIAS].strip()!r}"
        )
    return alias


def identity(folder: Path, alias: str | None = None) -> Identity:
    """The learner's own, kept in ``folder`` beside the progress and made at the first time; ``alias`` changes the name.

    Raises ``OSError`` where it cannot be kept: a number drawn anew each time would make one learner several.
    """
    path, found = folder / _KEPT_IN, Identity("")
    with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
        kept = json.loads(path.read_text(encoding="utf-8"))
        found = Identity(_word(kept["id"]), clean_alias(str(kept.get("alias") or "")))
    wanted = Identity(found.id or secrets.token_hex(8), found.alias if alias is None else clean_alias(alias))
    if wanted != found:
        folder.mkdir(parents=True, exist_ok=True)
        write(path, json.dumps(asdict(wanted), ensure_ascii=False) + "\n", mode=0o600)
    return wanted


def _word(value: Any) -> str:
    return value if isinstance(value, str) and value.isalnum() and 4 <= len(value) <= 64 else ""


def file_name(who: Identity) -> str:
    """The name of the learner's file in every folder that it is shared with."""
    return f"shared-{who.id}.jsonl"


def text_of(who: Identity, events: Iterable[Mapping[str, Any]]) -> str:
    """The whole file. Events of claims that are the learner's own stay at home."""
    from course_lib import __version__

    head = {
        "event": "shared", "name": who.alias, "id": who.id, "format": FORMAT, "course": __version__,
    }  # fmt: skip
    lines = [head]
    for event in events:
        if not str(event.get("name", "")).startswith(_OWN_CLAIMS) and event.get("event") not in _AT_HOME:
            lines.append({key: value for key, value in event.items() if key in FIELDS})
    return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)


def write(path: Path, text: str, *, mode: int) -> None:
    """Put a whole file in the place of an old one at once: who reads meanwhile has the old one or the new one.

    A link that somebody has laid under this name is replaced, and not followed.
    """
    handle, name = tempfile.mkstemp(prefix=".", suffix=".new", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(name, mode)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
