"""From the course's files to a folder that holds the site, and nothing of yours lost on the way.

The site is made in a folder beside the target, and takes the target's place when it is whole. What stood there is
replaced only where every file of it is one that ``course site`` wrote, unchanged: a list with hashes says so.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
import tempfile
from pathlib import Path

from course_lib.authoring.site.pages import write_pages
from course_lib.authoring.site.settings import settings

__all__ = ["MANIFEST", "SiteError", "build_site", "refuse_what_is_not_ours"]

MANIFEST = "course_site.json"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class SiteError(ValueError):
    """The site cannot be made, or not there. The text says what to do."""


def build_site(root: Path, out: Path, repository: str = "") -> list[str]:
    """Make the site of the course in ``root`` at ``out``; returns Sphinx's warnings.

    Raises SiteError or LessonError (each a ValueError).
    """
    out = out.expanduser().resolve()
    refuse_what_is_not_ours(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".course_site_", dir=out.parent) as folder:
        work = Path(folder)
        texts, extra, made = work / "texts", work / "extra", work / "made"
        extra.mkdir()
        write_pages(root, texts, extra, repository)
        warnings = _run_sphinx(texts, extra, made, work / "doctrees", repository)
        for left in (".buildinfo", "objects.inv", ".doctrees"):
            _remove(made / left)
        (made / ".nojekyll").touch()  # GitHub Pages is to serve folders that begin with an underscore
        (made / MANIFEST).write_text(json.dumps({"files": _hashes(made)}, indent=0), encoding="utf-8")
        refuse_what_is_not_ours(out)
        if out.exists():
            out.rename(work / "before")
        made.rename(out)
        out.chmod(0o755)
    return warnings


def refuse_what_is_not_ours(out: Path) -> None:
    """SiteError where ``out`` holds anything that would be lost: a file of others, or a page that was changed."""
    if out.exists() and not out.is_dir():
        raise SiteError(f"{out} is a file; --out is a folder, for example {out.parent / 'site'}")
    if not out.exists() or not any(out.iterdir()):
        return
    try:
        ours = json.loads((out / MANIFEST).read_text(encoding="utf-8"))["files"]
    except (OSError, ValueError, KeyError, TypeError):
        raise SiteError(
            f"{out} holds files that `course site` did not write, and they would be lost; name another folder, "
            f"for example --out {out / 'site'}"
        ) from None
    for name, digest in _hashes(out).items():
        if ours.get(name) != digest:
            raise SiteError(
                f"{out / name} is not as `course site` wrote it, and would be lost; move it elsewhere, or name "
                "another folder with --out"
            )


def _run_sphinx(texts: Path, extra: Path, made: Path, doctrees: Path, repository: str) -> list[str]:
    from sphinx.application import Sphinx
    from sphinx.errors import SphinxError
    from sphinx.util.docutils import docutils_namespace

    said = io.StringIO()
    try:
        with docutils_namespace():
            app = Sphinx(texts, None, made, doctrees, "html", settings(extra, repository), status=None, warning=said)
            app.build(force_all=True)
    except SphinxError as error:
        raise SiteError(f"Sphinx stopped: {error}") from error
    lines = _COLOUR.sub("", said.getvalue()).replace(f"{texts}/", "").splitlines()
    return [line for line in lines if line.strip()]


def _hashes(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file() or path.is_symlink())
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
        if path.name != MANIFEST or path.parent != folder
    }


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
