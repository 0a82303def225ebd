"""The learner's package as text: what one of its functions needs of its files, and a digest of just that.

Files are read and parsed, and nothing of them runs. The digest covers every statement that would run, also those that
come from other files of the same package, so what has passed a check is known again, and nothing else is.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from course_lib.base.named_file import bytes_of
from course_lib.mine.source.statements import Statement, own_module, slice_of, statements_of

__all__ = ["CannotLoadError", "Version", "read_module", "version_of"]

_MOST_BYTES = 1 << 18  # of one file: a hundred times what a lesson's answers have
_MOST_FILES = 50


class CannotLoadError(Exception):
    """A version that cannot be used; the text completes "..., since "."""


@dataclass(frozen=True)
class Version:
    """A function as its package has it now: of each file the statements that it needs, and their digest."""

    folder: Path
    module: str
    name: str
    needed: Mapping[str, tuple[Statement, ...]]  # by module
    wholes: frozenset[str]  # modules of which all is needed, since they are imported as modules

    @property
    def digest(self) -> str:
        texts = []
        for module in sorted(self.needed):
            lines = [line for one in self.needed[module] for line in one.text.splitlines() if line.strip()]
            texts.append("\n".join([f"== {module}", *lines]))
        return hashlib.sha256("\n".join(texts).encode("utf-8", "surrogatepass")).hexdigest()


def read_module(folder: Path, module: str) -> str:
    """The text of a file of the package. Raises ``FileNotFoundError``; ``CannotLoadError`` for other trouble."""
    path = folder / f"{module}.py"
    try:
        return bytes_of(path, most_bytes=_MOST_BYTES, links=False).decode("utf-8")
    except FileNotFoundError:
        raise
    except OSError as error:
        raise CannotLoadError(f"mine/{module}.py cannot be read ({error.strerror or type(error).__name__})") from None
    except ValueError:
        raise CannotLoadError(f"mine/{module}.py is no text in UTF-8") from None


def version_of(folder: Path, module: str, name: str) -> Version:
    """What stands there under this name. Raises ``FileNotFoundError`` and ``CannotLoadError``."""
    names: dict[str, set[str]] = {module: {name}}
    wholes: set[str] = set()
    while True:
        needed = {one: _needed(folder, one, names[one], one in wholes) for one in names}
        if not any(name in one.binds for one in needed[module]):
            raise CannotLoadError(f"mine/{module}.py has no {name}")
        before = {one: set(found) for one, found in names.items()}, set(wholes)
        for found in needed.values():
            for statement in found:
                _follow(folder, statement, names, wholes)
        if len(names) > _MOST_FILES:
            raise CannotLoadError(f"it imports over {_MOST_FILES} files of its package")
        if (names, wholes) == before:
            return Version(folder, module, name, needed, frozenset(wholes))


def _needed(folder: Path, module: str, names: set[str], whole: bool) -> tuple[Statement, ...]:
    try:
        every = statements_of(read_module(folder, module))
        found = every if whole else slice_of(every, names)
    except SyntaxError as error:
        where = f" on line {error.lineno}" if error.lineno else ""
        raise CannotLoadError(f"mine/{module}.py has a syntax error{where} ({error.msg})") from None
    except (RecursionError, MemoryError):
        raise CannotLoadError(f"mine/{module}.py is nested too deep to be read") from None
    for name in sorted(names):
        if not whole and not any(name in one.binds for one in found):
            raise CannotLoadError(f"mine/{module}.py has no {name}")
    return found


def _follow(folder: Path, statement: Statement, names: dict[str, set[str]], wholes: set[str]) -> None:
    """Note what a statement imports from its own package."""
    node = statement.node
    _refuse_unseen_imports(node)
    module = own_module(node)
    if module is None:
        return
    assert isinstance(node, ast.Import | ast.ImportFrom)
    if "." in module:
        raise CannotLoadError(f"`{statement.text}` goes into a folder of the package, where nothing is read")
    if isinstance(node, ast.Import):
        if not module or not node.names[0].asname:
            raise CannotLoadError(f"`{statement.text}` is not followed here; write `from mine import helpers`, say")
        found, whole = [module], True
    elif not module:
        found, whole = [alias.name for alias in node.names], True
    else:
        found, whole = [module], False
    for one in found:
        if not (folder / f"{one}.py").is_file():
            raise CannotLoadError(f"it imports `{one}` of its package, and there is no mine/{one}.py")
        names.setdefault(one, set())
        if whole:
            wholes.add(one)
        else:
            names[one] |= {alias.name for alias in node.names}


def _refuse_unseen_imports(node: ast.stmt) -> None:
    """An import of the own package that no digest would cover: with a star, within a function, or two on a line."""
    for one in ast.walk(node):
        if isinstance(one, ast.ImportFrom):
            is_own = one.level > 0 or (one.module or "").partition(".")[0] == "mine"
            is_seen = one is node and one.level <= 1 and all(alias.name != "*" for alias in one.names)
        elif isinstance(one, ast.Import):
            is_own = any(alias.name.partition(".")[0] == "mine" for alias in one.names)
            is_seen = one is node and len(one.names) == 1
        else:
            continue
        if is_own and not is_seen:
            raise CannotLoadError(
                f"`{ast.unparse(one)}` cannot be followed; import by name, on a line of its own, at the top of the file"
            )
