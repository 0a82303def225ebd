"""One run of nbval over solved notebooks, in one combination, and which cells it found to differ."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from course_lib.authoring.testing.parts import nbval_command
from course_lib.authoring.testing.portable.environments import Environment
from course_lib.authoring.testing.portable.kinds import ProcessorKind, variables
from course_lib.authoring.testing.run import own_environment
from course_lib.kernels import modules
from course_lib.lessons.info import built_notebooks

__all__ = ["FOLDER", "Combination", "TrialOutcome", "Unfinished", "notebooks_of", "try_one"]

FOLDER = "notebooks/solutions"
_NOT_COMPARED = "nbval-ignore-output"
_ARITHMETIC = "course_lib.authoring.testing.portable.other_arithmetic"


@dataclass(frozen=True)
class Combination:
    """What a run is made in."""

    kind: ProcessorKind
    num_threads: int
    environment: Environment


@dataclass(frozen=True)
class TrialOutcome:
    """How many cells with outputs were compared, and which differ: ``05e_one_model_again 41``."""

    compared: int
    differ: tuple[str, ...]


class Unfinished(Exception):
    """A run has told nothing of its cells. The text is the last that it said."""


def notebooks_of(root: Path, wanted: Sequence[str]) -> list[str]:
    """The solved notebooks, or those whose lesson ("05", "05e") is wanted, as paths below ``root``.

    Raises:
        ValueError: A lesson that is not there.
    """
    paths = built_notebooks(root / FOLDER)
    for word in wanted:
        if not any(path.name.startswith(word) for path in paths):
            have = ", ".join(path.stem.partition("_")[0] for path in paths)
            raise ValueError(f"there is no lesson {word!r}; there are {have}.")
    return [str(path.relative_to(root)) for path in paths if not wanted or path.name.startswith(tuple(wanted))]


def try_one(combination: Combination, notebooks: Sequence[str], *, root: Path) -> TrialOutcome:
    """Run these notebooks in this combination.

    Raises:
        Unfinished: The run has ended without a word of its cells.
    """
    with own_environment() as env, tempfile.TemporaryDirectory(prefix="course-portable-") as folder:
        report = Path(folder) / "report.xml"
        env |= variables(combination.kind, combination.num_threads)
        if not combination.environment.is_this:
            env["PYTHONPATH"] = str(root)  # the course is not installed there
        command = nbval_command(root, notebooks, python=combination.environment.interpreter, are_warm=True)
        command += ["--warm-modules", ",".join((*modules.NAMES, _ARITHMETIC)), f"--junitxml={report}"]
        try:
            done = subprocess.run(command, cwd=root, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        except OSError as error:
            raise Unfinished(str(error)) from None
        try:
            return outcome_of(report.read_text(encoding="utf-8"), notebooks, root=root)
        except (OSError, ElementTree.ParseError, Unfinished):
            lines = [line for line in f"{done.stderr}\n{done.stdout}".splitlines() if line.strip()]
            raise Unfinished(lines[-1] if lines else f"exit code {done.returncode}") from None


def outcome_of(report: str, notebooks: Sequence[str], *, root: Path) -> TrialOutcome:
    """What pytest's report in XML says of these notebooks.

    Raises:
        Unfinished: There are cells of which it says nothing: it was cut short.
    """
    tested, failed = set(), []
    for case in ElementTree.fromstring(report).iter("testcase"):
        stem, number = _cell_of(case)
        tested.add((stem, number))
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append((stem, number))
    compared = 0
    for notebook in notebooks:
        stem, cells = Path(notebook).stem, _code_cells(root / notebook)
        missing = [number for number in range(len(cells)) if (stem, number) not in tested]
        if missing:
            raise Unfinished(f"{stem}: nothing is told of {len(missing)} of {len(cells)} cells")
        compared += sum(_is_compared(cell) for cell in cells)
    return TrialOutcome(compared, tuple(f"{stem} {number}" for stem, number in sorted(set(failed))))


def _cell_of(case: ElementTree.Element) -> tuple[str, int]:
    """From ``classname="notebooks.solutions.05e_one_model_again.ipynb" name="Cell 41"``."""
    name = case.get("classname", "").removesuffix(".ipynb")
    number = case.get("name", "").rpartition(" ")[2]
    return name.rpartition(".")[2], int(number) if number.isdecimal() else -1


def _code_cells(path: Path) -> list[dict]:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def _is_compared(cell: dict) -> bool:
    return bool(cell["outputs"]) and _NOT_COMPARED not in cell["metadata"].get("tags", [])
