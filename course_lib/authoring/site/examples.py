"""Pages of the programs to take home: one for each folder of ``course_lib/examples``, with its files to read."""

from __future__ import annotations

import ast
from pathlib import Path

from course_lib.base.paths import course_file

__all__ = ["FOLDER", "example_pages"]

FOLDER = "course_lib/examples"
_LANGUAGE = {".py": "python", ".sh": "bash", ".sbatch": "bash", ".yaml": "yaml"}


def example_pages(root: Path) -> dict[str, str]:
    """The text of each page by its path on the site, the overview first; empty where there are no examples."""
    folders = [path.parent for path in sorted(course_file(FOLDER, root).glob("*/__init__.py"))]
    if not folders:
        return {}
    head = "# Programs to take home\n\nEach is a folder to copy. It needs torch, and nothing of the course.\n\n"
    lines = [f"- [{folder.name}]({folder.name}.md): {_first_sentence(folder)}" for folder in folders]
    pages = {"examples/index.md": head + "\n".join(lines) + "\n"}
    return pages | {f"examples/{folder.name}.md": _page(folder) for folder in folders}


def _docstring(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""


def _first_sentence(folder: Path) -> str:
    return " ".join(_docstring(folder / "__init__.py").split("\n\n")[0].split())


def _page(folder: Path) -> str:
    files = sorted(path for path in folder.iterdir() if path.suffix in _LANGUAGE)
    parts = [f"# {folder.name}\n\n{_first_sentence(folder)}\n"]
    for path in files:
        text = path.read_text(encoding="utf-8").rstrip("\n")
        parts.append(f"## `{path.name}`\n\n`````{_LANGUAGE[path.suffix]}\n{text}\n`````\n")
    return "\n".join(parts)
