"""Which tests a change may touch, read off the imports: nearest first.

A name taken from a package leads to the file that it lives in, also where the package loads it late, and not to all
else that is there. What a file names in a text counts as well: a module to be started (``"course_lib.lab"``), and a
file that is read (``"pyproject.toml"``). What belongs to a lesson touches the tests that have its number.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path, PurePosixPath

__all__ = ["EXERCISES", "lessons_of", "touched_tests", "uses"]

EXERCISES = "tests/learn/test_exercises.py"  # of every lesson; its tests have the lesson's number in their names
_OF_ITS_PART = 2  # the distance of tests that have the name of the part, and no import that leads there
_LESSON = re.compile(r"(?:lesson_|predictions_|notebooks/(?:src/|solutions/)?)(\d\d)[a-z]?(?:[_./]|$)")


def touched_tests(root: Path, files: Iterable[str]) -> list[tuple[str, int]]:
    """The files of tests that these changed files may touch, each with its distance in imports; nearest first.

    A changed file of tests has the distance 0. Tests named for the part count as near, whatever they import. Of
    those equally far, the ones that are named like a changed file come first.
    """
    changed = list(files)
    users = defaultdict[str, set[str]](set)
    for path, used in uses(root, changed).items():
        for other in used:
            users[other].add(path)
    distance, ahead = dict.fromkeys(changed, 0), list(changed)
    for path in ahead:  # grows while we go: breadth first
        for user in sorted(users[path]):
            if user not in distance:
                distance[user] = distance[path] + 1
                ahead.append(user)
    for path in (p.relative_to(root).as_posix() for p in (root / "tests").rglob("test_*.py")):
        if distance.get(path, _OF_ITS_PART + 1) > _OF_ITS_PART and any(_is_of_part(path, one) for one in changed):
            distance[path] = _OF_ITS_PART  # reached by what is imported by name while it runs, it may be
    found = [path for path in distance if _is_test(path) and (root / path).is_file()]
    words = {word for path in changed for word in _words(path)}
    return [(path, distance[path]) for path in sorted(found, key=lambda p: (distance[p], -len(words & _words(p)), p))]


def lessons_of(files: Iterable[str]) -> set[str]:
    """The numbers of the lessons to which these files belong."""
    return {found[1] for found in map(_LESSON.search, files) if found}


def uses(root: Path, changed: Iterable[str] = ()) -> Mapping[str, set[str]]:
    """For each Python file of the library and the tests, the files that it uses. Those that do not parse use none."""
    library, tests = (
        sorted(p.relative_to(root).as_posix() for p in (root / top).rglob("*.py")) for top in ("course_lib", "tests")
    )
    others = [path for path in changed if not path.endswith(".py") or path.startswith("notebooks/")]
    by_lesson = _by_lesson([*library, *others])
    found = {path: _imports(root, path) - {path} for path in (*library, *tests)}
    for path in tests:
        text = (root / path).read_text(encoding="utf-8", errors="replace")
        found[path] |= {other for other in others if _names_file(text, PurePosixPath(other).name)}
        found[path] |= {guard for guard in _conftests(path) if (root / guard).is_file()} - {path}
        for lesson in by_lesson if path == EXERCISES else lessons_of([path]):
            found[path] |= by_lesson.get(lesson, set())
    return found


def _names_file(text: str, name: str) -> bool:
    """Whether a test names this file: "pyproject.toml", "assets/x.png"; not in the middle of a sentence."""
    return re.search(rf"""["'/]{re.escape(name)}["']""", text) is not None


def _by_lesson(files: Iterable[str]) -> dict[str, set[str]]:
    """The files of the room of each lesson, and its text."""
    found = defaultdict[str, set[str]](set)
    for path in files:
        if path.startswith(("course_lib/learn/exercises/", "notebooks/")):
            for lesson in lessons_of([path]):
                found[lesson].add(path)
    return found


def _conftests(path: str) -> list[str]:
    return [(folder / "conftest.py").as_posix() for folder in PurePosixPath(path).parents if folder.parts]


def _imports(root: Path, path: str) -> set[str]:
    """The files of the project that a Python file imports, anywhere in it, or names as modules."""
    if path.endswith("/__init__.py") and path.startswith("course_lib/"):
        return set()  # what is taken from a package leads on to where it lives, not here
    file = root / path
    return {home for name in _imported(file, file.stat().st_mtime_ns) for home in _home(root, *name)}


@lru_cache(maxsize=4096)
def _imported(path: Path, _mtime_ns: int) -> frozenset[tuple[str, ...]]:
    """What a file that was last changed then imports: a module, or a module and a name in it."""
    found: set[tuple[str, ...]] = set()
    tree = _tree(path)
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Import):
            found |= {(alias.name,) for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found |= {(node.module, alias.name) for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "course_lib." in node.value:
            found |= {(name,) for name in re.findall(r"\bcourse_lib(?:\.\w+)+", node.value)}
    return frozenset(found)


def _home(root: Path, module: str, name: str = "") -> set[str]:
    """The files behind ``import module``, or ``from module import name``; none outside the project."""
    file, package = Path(*module.split(".")).with_suffix(".py"), Path(*module.split("."), "__init__.py")
    if module.partition(".")[0] != "course_lib":
        # pytest finds what lies in these folders by its plain name
        return {file for file in (f"tests/support/{module}.py", f"tests/{module}.py") if (root / file).is_file()}
    if (root / file).is_file():
        return {file.as_posix()}
    if not (root / package).is_file():
        return set()
    if not name:
        return {package.as_posix()}
    home = _names_of(root / package).get(name, f"{module}.{name}")
    return {package.as_posix(), *(_home(root, home) if home != module else ())}


@lru_cache(maxsize=1024)
def _names_of(package: Path) -> dict[str, str]:
    """For each name that a package offers, the module in which it lives: imported at once, or when it is first used."""
    found: dict[str, str] = {}
    tree, here = _tree(package), ".".join(package.parent.parts[package.parent.parts.index("course_lib") :])
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("course_lib."):
            found |= {alias.asname or alias.name: node.module for alias in node.names}
        elif isinstance(node, ast.Dict):
            for key, value in zip(map(_text, node.keys), map(_text, node.values), strict=True):
                if key and value and (package.parent / f"{value}.py").is_file():
                    found[key] = f"{here}.{value}"
    return found


def _text(node: ast.expr | None) -> str:
    """The text that stands in the source at this place; "" for anything else."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _tree(path: Path) -> ast.Module | None:
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return None


def _is_test(path: str) -> bool:
    return path.startswith("tests/") and PurePosixPath(path).name.startswith("test_")


def _is_of_part(test: str, path: str) -> bool:
    """Whether a file of tests is named for the part of the library that holds ``path``."""
    parts = PurePosixPath(path).parts
    part = parts[1].removesuffix(".py") if parts[0] == "course_lib" and len(parts) > 1 else None
    return part is not None and bool({part, part.removesuffix("s")} & _words(test))


def _words(path: str) -> set[str]:
    words = re.split(r"\W|_", path.removesuffix(".py").replace("course_lib", ""))
    return set(words) - {"tests", "test", "py", ""}
