"""What of the learner's library goes into a pack: each class that trains a model, with the statements it needs."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from course_lib.mine.ledger import kept_of
from course_lib.mine.source.package import CannotLoadError, Version, version_of
from course_lib.mine.source.statements import Statement
from course_lib.mine.table import LibraryEntry, entry_of

__all__ = ["WAYS", "Packed", "packed"]

WAYS: Mapping[str, str] = {"ddp": "MyDDP", "sharded_optimizer": "MyShardedOptimizer", "fully_sharded": "MyFullySharded"}
"""How ``train.py`` can train, and the class of the learner's by which it does."""


@dataclass(frozen=True)
class Packed:
    """``files``: the text of each module of the learner's, by name. ``left_out``: a sentence for each way without."""

    ways: tuple[str, ...]
    files: Mapping[str, str]
    left_out: tuple[str, ...]


def packed(folder: Path) -> Packed:
    """What of the package in ``folder`` goes along. Files are read as text, and nothing of them runs."""
    versions: dict[str, Version] = {}
    left_out = []
    for way, name in WAYS.items():
        found = _version(folder, entry_of(name))
        if isinstance(found, Version):
            versions[way] = found
        else:
            left_out.append(f"{way}: {found}")
    return Packed(tuple(versions), _files(versions.values()), tuple(left_out))


def _version(folder: Path, entry: LibraryEntry) -> Version | str:
    """What stands in the file, where it is as it passed and needs no course; else a sentence."""
    passed = kept_of(entry.exercise).passed
    if not passed:
        return f"{entry.name} is the course's so far; it is yours once {entry.exercise} has passed."
    try:
        version = version_of(folder, entry.module, entry.name)
    except FileNotFoundError:
        return f"{entry.file} is gone."
    except CannotLoadError as error:
        return f"{error}."
    if version.digest not in passed:
        return f"what stands in {entry.file} has not passed {entry.exercise}. `course mine --check` checks it."
    for module, statements in version.needed.items():
        for statement in statements:
            if line := _course_line(statement):
                return f"mine/{module}.py needs the course (`{line}`), and a pack runs without it."
    return version


def _course_line(statement: Statement) -> str:
    """The import by which a statement needs the course; "" for none."""
    for node in ast.walk(statement.node):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if any(name.partition(".")[0] == "course_lib" for name in names):
            return ast.unparse(node)
    return ""


def _files(versions: Iterable[Version]) -> dict[str, str]:
    needed: dict[str, dict[str, Statement]] = {}
    for version in versions:
        for module, statements in version.needed.items():
            needed.setdefault(module, {}).update({one.text: one for one in statements})
    return {
        module: "\n\n".join(one.text for one in sorted(found.values(), key=lambda one: one.first)) + "\n"
        for module, found in needed.items()
    }
