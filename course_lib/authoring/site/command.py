"""What is typed: ``course site [--out DIR] [--check] [--repository ADDRESS]``."""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from course_lib.base.paths import PACKAGE, is_installed, project_root

__all__ = ["main", "missing"]

_ABOUT = """\
Make the reading site of the course: every lesson part as it was executed, with answers folded; README, glossary,
programs to take home. The folder can be opened from disk (index.html), or served by anything; no page asks another
machine for anything. Nothing is executed."""


def main(argv: Sequence[str]) -> int:
    """0 well; 1 where the site cannot be made or has a fault; 2 for a wrong command line."""
    args = _parser().parse_args(argv)
    try:
        return _look_over(args.out) if args.check else _build(args)
    except (ValueError, OSError) as error:  # SiteError, LessonError; a folder that cannot be written
        print(f"course site: {error}", file=sys.stderr)
        return 1


def missing() -> list[str]:
    """The modules of the extra ``site`` that this Python lacks."""
    from course_lib.authoring.site.settings import NEEDED

    return [name for name in NEEDED if importlib.util.find_spec(name) is None]


def _how_to_have_them() -> str:
    if is_installed():
        return f"Type `{sys.executable} -m pip install '{PACKAGE}[site]'`."
    return f"In the folder of the course: `{sys.executable} -m pip install -e '.[site]'`."


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="course site", description=_ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--out", type=Path, default=Path("site"), metavar="DIR", help="where the site is (default: ./site)"
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="make nothing; follow the links of the site in DIR, and fail where one leads nowhere or a page "
        "would fetch something from elsewhere",
    )
    parser.add_argument(
        "--repository",
        type=_address,
        default=None,
        metavar="ADDRESS",
        help="where the course's files can be read, as https://github.com/NAME/COURSE: links to files that are "
        "no page lead there (without it they are plain text)",
    )
    return parser


def _address(text: str) -> str:
    if not text.startswith("https://"):
        raise argparse.ArgumentTypeError(f"it is {text!r}; it begins with https://")
    return text


def _build(args: argparse.Namespace) -> int:
    lacking = missing()
    if lacking:
        print(
            f"course site needs {', '.join(lacking)}, which {sys.executable} does not have. {_how_to_have_them()}",
            file=sys.stderr,
        )
        return 1
    from course_lib.authoring.site.build import build_site

    begun = time.perf_counter()
    warnings = build_site(project_root(), args.out, args.repository or "")
    for line in warnings:
        print(f"  {line}", file=sys.stderr)
    files = [path for path in args.out.rglob("*") if path.is_file()]
    size_mb = sum(path.stat().st_size for path in files) / 1e6
    pages = _count([path for path in files if path.suffix == ".html"], "page")
    print(
        f"{args.out}: {pages}, {size_mb:.0f} MB, in {time.perf_counter() - begun:.0f} s; open "
        f"{args.out / 'index.html'}" + (f". Sphinx warned: {_count(warnings, 'time')}" if warnings else "")
    )
    return 1 if warnings else 0


def _look_over(out: Path) -> int:
    from course_lib.authoring.site.look_over import faults

    if not (out / "index.html").is_file():
        print(
            f"course site: there is no site in {out} (no index.html); `course site --out {out}` makes it",
            file=sys.stderr,
        )
        return 1
    found = faults(out)
    for sentence in found:
        print(f"  {sentence}")
    pages = _count(list(out.rglob("*.html")), "page")
    print(f"{out}: {pages}, " + (_count(found, "fault") if found else "every link leads somewhere"))
    return 1 if found else 0


def _count(things: Sequence[object], word: str) -> str:
    return f"{len(things)} {word}{'' if len(things) == 1 else 's'}"
