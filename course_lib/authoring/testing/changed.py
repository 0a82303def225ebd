"""Which files differ from the last commit of `main`, by git: changed, committed on a branch, or not yet tracked."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Changes", "GitError", "changes"]

_MAINS = ("origin/main", "main")
_LIMIT_S = 60


class GitError(RuntimeError):
    """Git cannot tell what has changed. The text says why."""


@dataclass(frozen=True)
class Changes:
    """Files by their path from the root, in order, those that are gone included; and what they were compared with."""

    files: tuple[str, ...]
    since: str


def changes(root: Path, since: str | None = None) -> Changes:
    """What has changed in the checkout ``root`` after the commit ``since``.

    Without it: after this branch left ``main``, or on ``main`` itself after the last commit.

    Raises:
        GitError: ``root`` is no checkout with a commit, git is missing, or ``since`` names no commit.
    """
    base = since or _base(root)
    try:
        short = _git(root, "rev-parse", "--short", f"{base}^{{commit}}").strip()
    except GitError as error:
        wrong = f"--since {base}: there is no such commit" if since else str(error)
        raise GitError(wrong) from None
    changed = _git(root, "diff", "--name-only", "--no-renames", "-z", short).split("\0")
    new = _git(root, "ls-files", "--others", "--exclude-standard", "-z").split("\0")
    return Changes(tuple(sorted({*changed, *new} - {""})), short)


def _base(root: Path) -> str:
    """The commit at which this branch left main; the last one where it is main, or there is none."""
    for name in _MAINS:
        try:
            return _git(root, "merge-base", "HEAD", name).strip()
        except GitError:
            continue
    return "HEAD"


def _git(root: Path, *words: str) -> str:
    try:
        done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, timeout=_LIMIT_S, check=True)
    except FileNotFoundError:
        raise GitError("git is not installed, and it tells what has changed") from None
    except subprocess.CalledProcessError as error:
        raise GitError(error.stderr.strip().partition("\n")[0] or f"git {words[0]} failed") from None
    return done.stdout
