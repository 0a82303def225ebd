"""``course build``: from ``notebooks/src`` to the notebooks."""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from course_lib.authoring.notebooks.hosted import command
from course_lib.base.paths import is_installed, needs_clone, project_root
from course_lib.lessons.info import LessonError

__all__ = ["main"]

_ASSIGNMENTS = "grading"
_LESSON = re.compile(r"\d\d[a-z]?(_[a-z0-9_]+)?(\.py)?")


def main(argv: Sequence[str] | None = None, *, root: Path | None = None) -> int:
    """Run ``course build [NN ...] [--check] [--force] [--jobs N]``, or with ``--programs``, ``--plans``, and so on.

    Gives 0 well, 1 not, 130 interrupted.
    """
    args = _parser().parse_args(argv)
    root = root or project_root()
    try:
        if command.asked(args):
            return command.run(root, args)
        if args.nbgrader is not None:
            return _assignments(root, args)
        if args.check:
            return _check(root, args.lessons)
        if is_installed(root):
            raise LessonError(f"{needs_clone('Making notebooks')} Here --check and --nbgrader work.")
        if args.programs:
            return _programs(root)
        if args.plans:
            return _plans(root)
        return _build(root, args)
    except LessonError as error:
        print(f"course build: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("course build: interrupted; notebooks not yet finished are as they were", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="course build", description="Build the notebooks from notebooks/src.")
    parser.add_argument("lessons", nargs="*", metavar="NN", help="lesson numbers or names (all when none is given)")
    parser.add_argument("--check", action="store_true", help="change nothing; fail when a notebook is not up to date")
    parser.add_argument("--force", action="store_true", help="execute again even if the code has not changed")
    parser.add_argument(
        "--jobs", type=_at_least_one, default=None, help="notebooks at a time (default: half the cores)"
    )
    parser.add_argument(
        "--programs",
        action="store_true",
        help="write what the programs to take home share instead, from course_lib/authoring/programs/sources",
    )
    parser.add_argument("--plans", action="store_true", help="write what `course plan` prints into docs/ten-plans.md")
    parser.add_argument(
        "--nbgrader",
        nargs="?",
        const="",
        metavar="FOLDER",
        help=f"write assignments for nbgrader instead, by default into the folder {_ASSIGNMENTS}; "
        "docs/instructor/grading.md says what to do with them",
    )
    command.add_options(parser)
    return parser


def _at_least_one(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"--jobs is {text}; it is a whole number of at least 1")
    return int(text)


def _check(root: Path, wanted: list[str]) -> int:
    from course_lib.authoring.notebooks.writing.build import find_sources, stale, strays
    from course_lib.authoring.notebooks.writing.needs_line import stale_needs_lines
    from course_lib.authoring.notebooks.writing.part_links import stale_part_lines
    from course_lib.authoring.notebooks.writing.printed import stale_printed
    from course_lib.authoring.notebooks.writing.readme import stale_pages
    from course_lib.authoring.programs.stamp import stale_programs
    from course_lib.lessons.glossary import FILE, glossary_is_fresh

    sources = find_sources(root, wanted)
    found = [sentence for path in sources for sentence in stale(path)] + ([] if wanted else strays(root))
    if not wanted:
        found += [f"{page} is not what the lessons and commands say" for page in stale_pages(root)]
        found += [f"{name}: its line of parts is not what the titles say" for name in stale_part_lines(root)]
        found += [f"{name}: what it builds on is not what the table says" for name in stale_needs_lines(root)]
    if not wanted and not glossary_is_fresh(root):
        found.append(f"{FILE} is not what the lessons say")
    if not wanted:
        found += [f"{name} is not what its source says: run `course build --programs`" for name in stale_programs(root)]
        found += [f"{page} is not what the planner says: run `course build --plans`" for page in stale_printed(root)]
    for sentence in found:
        print(f"  {sentence}")
    count = f"{len(sources)} lesson{'' if len(sources) == 1 else 's'}"
    print(f"{count}: " + ("not up to date; run `course build`" if found else "up to date"))
    return 1 if found else 0


def _build(root: Path, args: argparse.Namespace) -> int:
    from tqdm import tqdm

    from course_lib.authoring.notebooks.writing.build import build, find_sources, strays
    from course_lib.authoring.notebooks.writing.needs_line import renew_needs_lines
    from course_lib.authoring.notebooks.writing.part_links import renew_part_lines
    from course_lib.authoring.notebooks.writing.readme import renew_pages
    from course_lib.lessons.glossary import FILE, renew_glossary

    for name in renew_part_lines(root):
        print(f"{name}: its line of parts was renewed")
    for name in renew_needs_lines(root):
        print(f"{name}: what it builds on was renewed")
    sources = find_sources(root, args.lessons)
    done: dict[str, list[str]] = {"fresh": [], "text": [], "executed": [], "failed": []}
    with tqdm(total=len(sources), desc="lessons", unit="lesson", disable=None) as bar:

        def on_done(path: Path, what: str) -> None:
            done[what].append(path.stem)
            bar.set_postfix_str(path.stem)
            bar.update()

        failures = asyncio.run(build(sources, jobs=args.jobs or _default_jobs(), force=args.force, on_done=on_done))
    for what, label in (
        ("executed", "executed"),
        ("text", "text renewed, outputs kept"),
        ("fresh", "unchanged"),
    ):
        if done[what]:
            print(f"{label}: {', '.join(sorted(done[what]))}")
    for page in renew_pages(root):
        print(f"{page} was renewed")
    if renew_glossary(root):
        print(f"{FILE} was renewed")
    for sentence in strays(root):
        print(f"note: {sentence}; delete it if the lesson is gone")
    for sentence in failures:
        print(f"course build: {sentence}", file=sys.stderr)
    return 1 if failures else 0


def _programs(root: Path) -> int:
    from course_lib.authoring.programs.stamp import write_programs

    names = write_programs(root)
    print("\n".join(f"{name} was renewed" for name in names) or "the programs to take home are up to date")
    return 0


def _plans(root: Path) -> int:
    from course_lib.authoring.notebooks.writing.printed import renew_printed

    print("\n".join(f"{page} was renewed" for page in renew_printed(root)) or "what plans print is up to date")
    return 0


def _assignments(root: Path, args: argparse.Namespace) -> int:
    from course_lib.authoring.notebooks.assignments.folder import write_assignments
    from course_lib.authoring.notebooks.writing.build import find_sources

    given, wanted = args.nbgrader, list(args.lessons)
    if _LESSON.fullmatch(given):  # `--nbgrader 00 02a`: the folder was left out
        given, wanted = "", [given, *wanted]
    folder = Path(given or _ASSIGNMENTS).expanduser()
    try:
        written, without = write_assignments(folder, find_sources(root, wanted), root)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        print(f"course build: {error.filename or folder} cannot be written ({reason})", file=sys.stderr)
        return 1
    if written:
        print(f"assignments in {folder / 'source'}: {', '.join(written)}")
    if without:
        print(f"no check, so no points and no assignment: {', '.join(without)}")
    return 0


def _default_jobs() -> int:
    # Lessons run several ranks and keep their timings: more kernels than half the cores would disturb what
    # they measure.
    from course_lib.devices.container_limits import usable_cores

    return max(1, usable_cores() // 2)
