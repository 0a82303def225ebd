"""What is typed: ``course build --hosted --repository URL --tag TAG [--to FOLDER] [--pictures URL] [--wheel URL]``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from course_lib.base.paths import is_installed
from course_lib.lessons.info import LessonError

__all__ = ["add_options", "asked", "run"]

_USAGE = "course build --hosted --repository https://github.com/OWNER/NAME --tag TAG"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of ``--hosted``, in a group of their own."""
    group = parser.add_argument_group("notebooks that stand alone, for Colab, Kaggle, Binder and Codespaces")
    group.add_argument(
        "--hosted",
        action="store_true",
        help="write them instead, with a page of badges and the folders that Binder and Codespaces read; "
        "docs/hosted.md says what to do with them",
    )
    group.add_argument("--repository", metavar="URL", help="where the course is, as https://github.com/OWNER/NAME")
    group.add_argument("--tag", metavar="TAG", help="the tag that readers get; it may be one that you make afterwards")
    group.add_argument(
        "--to",
        type=Path,
        metavar="FOLDER",
        help="the root of the repository that will hold the notebooks (default: this copy of the course)",
    )
    group.add_argument(
        "--pictures",
        metavar="URL",
        help="where a browser finds the files of assets/, if the repository is not on GitHub or a GitLab",
    )
    group.add_argument(
        "--wheel",
        metavar="URL",
        help="a wheel of the course, to be installed in place of the repository's tag",
    )


def asked(args: argparse.Namespace) -> bool:
    """Whether hosted notebooks are wanted. Raises LessonError for an option of theirs without ``--hosted``."""
    alone = [name for name in ("repository", "tag", "to", "pictures", "wheel") if getattr(args, name) is not None]
    if alone and not args.hosted:
        raise LessonError(f"--{alone[0]} belongs to hosted notebooks: {_USAGE}")
    return args.hosted


def run(root: Path, args: argparse.Namespace) -> int:
    """Write the files; 0 well, 1 where one could not be written. Raises LessonError for what was typed wrong."""
    from course_lib.authoring.notebooks.hosted.folder import hosted_files, write_hosted
    from course_lib.authoring.notebooks.hosted.repository import need_wheel, repository_at
    from course_lib.authoring.notebooks.writing.build import find_sources

    other = [option for option in ("check", "force", "jobs", "nbgrader") if getattr(args, option) not in (None, False)]
    if other:
        raise LessonError(f"--hosted does not go together with --{other[0]}: {_USAGE}")
    for option in ("repository", "tag"):
        if getattr(args, option) is None:
            raise LessonError(f"--hosted needs --{option}: {_USAGE}")
    if args.to is None and is_installed(root):
        raise LessonError(f"--hosted of an installed course needs --to FOLDER, a place for the notebooks: {_USAGE}")
    repository = repository_at(args.repository, args.tag, args.pictures or "")
    wheel = need_wheel(args.wheel) if args.wheel is not None else ""
    folder = root if args.to is None else args.to.expanduser()
    files = hosted_files(find_sources(root, args.lessons), root, repository, wheel)
    try:
        write_hosted(files, folder, root)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        print(f"course build: {error.filename or folder} cannot be written ({reason})", file=sys.stderr)
        return 1
    count = sum(name.endswith(".ipynb") for name in files)
    others = ", ".join(name for name in files if not name.endswith((".ipynb", ".json")) or "devcontainer" in name)
    print(f"in {folder}: {count} notebook{'' if count == 1 else 's'} in hosted/, {others}")
    print(
        f"Commit them, then: git tag {args.tag}; git push origin HEAD {args.tag}. Badges lead there once that is done."
    )
    return 0
