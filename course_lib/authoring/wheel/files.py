"""Which files of a clone's top level a learner, or a verb, reads: these go into a wheel.

Tests, and what only a clone needs, stay out.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["files_of"]

_PATTERNS = (
    "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "requirements.txt", "environment.yml",
    "notebooks/[0-9][0-9]*_*.ipynb", "notebooks/tour.ipynb", "notebooks/start.ipynb", "notebooks/glossary.md",
    "notebooks/src/[0-9][0-9]*_*.py", "notebooks/solutions/[0-9][0-9]*_*.ipynb",
    "notebooks/src/tour.py", "notebooks/solutions/tour.ipynb",
    "assets/*.png", "assets/measured/*.json", "assets/published/*", "assets/traces/*", "docs/**/*",
)  # fmt: skip


def files_of(root: Path) -> list[str]:
    """The names, below ``root``, of the files that a wheel takes; no hidden ones, and no lesson that somebody keeps."""
    found = {
        path.relative_to(root).as_posix()
        for pattern in _PATTERNS
        for path in root.glob(pattern)
        if path.is_file() and "(" not in path.name
    }
    return sorted(name for name in found if not any(part.startswith(".") for part in name.split("/")))
