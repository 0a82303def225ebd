"""``course build --programs``: the files that programs to take home share, written from one source each.

Each folder of ``course_lib/examples`` is to be copied, and so holds all that it needs. A source is Python with
statements of Jinja2 between ``#:`` and ``:#``, such as ``#: if mesh :#``; ``{{ program }}`` is the folder's name.
``settings_ddp.py.jinja`` is the source of that program alone, ``words.py.jinja`` a part of others. A file without a
source is written by hand in its folder.
"""

from __future__ import annotations

from pathlib import Path

from course_lib.base.paths import course_file

__all__ = ["PROGRAMS", "stale_programs", "stamped", "write_programs"]

_SHARED = ("keeping", "saving", "settings", "start", "text", "train")
PROGRAMS = {"train_ddp": ("settings", "start"), "train_fsdp": _SHARED, "train_mesh": _SHARED}
"""The files of each program that are written here."""

_SOURCES = Path(__file__).parent / "sources"
_NAME = "course_lib/authoring/programs/sources"
_HEAD = (
    "# In the course: written by ./course build --programs from {source},\n"
    "# so edit that one, with what it includes. In a copy of this folder there is no other: edit this file.\n"
)
_KINDS = {program.removeprefix("train_"): program for program in PROGRAMS}  # what a source asks for: `if mesh`


def stamped(program: str) -> dict[str, str]:
    """The text of each file of a program that is written here, by its name in the program's folder."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_SOURCES),
        block_start_string="#:",
        block_end_string=":#",
        trim_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )
    texts = {}
    for name in PROGRAMS[program]:
        own = f"{name}_{program.removeprefix('train_')}"
        source = environment.select_template([f"{own}.py.jinja", f"{name}.py.jinja"])
        head = _HEAD.format(source=f"{_NAME}/{source.name}")
        asked = {kind: program == of for kind, of in _KINDS.items()}
        texts[f"{name}.py"] = head + source.render(program=program, **asked)
    return texts


def write_programs(root: Path) -> list[str]:
    """Write the files of those programs that ``root`` has; the names of those that were not what their source says."""
    stale = _stale(root)
    for path, text in stale.items():
        path.write_text(text, encoding="utf-8", newline="\n")
    return _names(root, stale)


def stale_programs(root: Path) -> list[str]:
    """The names of files that are not what their source says."""
    return _names(root, _stale(root))


def _stale(root: Path) -> dict[Path, str]:
    found = {}
    for program in PROGRAMS:
        folder = course_file(f"course_lib/examples/{program}", root)
        if folder.is_dir():
            found |= {folder / name: text for name, text in stamped(program).items()}
    return {path: text for path, text in found.items() if not path.is_file() or path.read_text("utf-8") != text}


def _names(root: Path, paths: dict[Path, str]) -> list[str]:
    examples = course_file("course_lib/examples", root)
    return [f"course_lib/examples/{path.relative_to(examples).as_posix()}" for path in paths]
