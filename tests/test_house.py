"""The house stands as CONTRIBUTING.md draws it: floors, sizes, where the environment is read, what is named."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = ROOT / "course_lib"

# Each part of course_lib, by floor. A part may import from its own floor and the floors below.
FLOOR_OF = {
    "paths": 0, "checks": 0, "lazy": 0, "devices": 0, "models": 0, "data": 0, "environment": 0, "environment_step": 0,
    "link": 0, "schedules": 0,
    "cluster": 1,
    "meter": 2,
    "cost": 3, "parallel": 3,
    "plot": 4, "examples": 4,
    "claims": 5, "learn": 5, "widgets": 5, "notebooks": 5, "bench": 5, "doctor": 5, "lab": 5, "testing": 5, "cli": 5,
}  # fmt: skip
READS_ENVIRONMENT = {
    "cluster", "paths", "devices", "lab", "testing", "cli", "bench", "notebooks", "learn", "environment",
    "environment_step", "examples", "claims",
}  # fmt: skip
MOST_LINES = 300
MOST_LINES_OF_A_FUNCTION = 50


def modules() -> list[Path]:
    return sorted(path for path in LIBRARY.rglob("*.py") if path != LIBRARY / "__init__.py")


def part_of(path: Path) -> str:
    return path.relative_to(LIBRARY).parts[0].removesuffix(".py")


def imports_of(path: Path) -> set[str]:
    """The parts of course_lib that a module imports, anywhere in it."""
    parts = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            names = []
        parts |= {name.split(".")[1] for name in names if name.startswith("course_lib.")}
    return parts & FLOOR_OF.keys()


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(LIBRARY)))
def test_no_module_imports_from_a_higher_floor(path):
    part = part_of(path)
    assert part in FLOOR_OF, f"{part} has no floor: add it here and in CONTRIBUTING.md"
    higher = {other for other in imports_of(path) if FLOOR_OF[other] > FLOOR_OF[part]}
    assert not higher, f"{part} is on floor {FLOOR_OF[part]} and imports {higher} from above"


def test_cost_is_arithmetic_and_needs_no_torch():
    for path in (LIBRARY / "cost").rglob("*.py"):
        assert not re.search(r"^\s*(import|from) torch\b", path.read_text(), re.MULTILINE), path


def test_files_and_functions_stay_small_enough_to_read():
    long = []
    for path in modules():
        text = path.read_text()
        if text.count("\n") > MOST_LINES:
            long.append(f"{path.name}: {text.count(chr(10))} lines")
        for node in ast.walk(ast.parse(text)):
            if (
                isinstance(node, ast.FunctionDef)
                and node.end_lineno - node.lineno >= MOST_LINES_OF_A_FUNCTION
            ):
                long.append(f"{path.name}: {node.name} has {node.end_lineno - node.lineno + 1} lines")
    assert not long, "\n".join(long)


def test_every_module_says_what_it_is():
    silent = [
        str(path.relative_to(ROOT))
        for path in modules()
        if not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert not silent


def test_the_environment_is_read_in_few_places():
    readers = {part_of(path) for path in modules() if re.search(r"os\.(environ|getenv)", path.read_text())}
    assert readers <= READS_ENVIRONMENT, readers - READS_ENVIRONMENT


def test_no_process_is_ended_by_name_and_no_port_is_fixed():
    for path in modules():
        text = path.read_text()
        assert not re.search(r"pkill|killall", text), path
        assert not re.search(r"MASTER_PORT\"?\s*[:=]\s*\"?[1-9]\d{3}", text), path


def requirement(name: str) -> str:
    """A dependency's line in CONTRIBUTING.md begins with its name in code marks."""
    return f"`{re.split('[<>=~!; ]', name.replace('[', ' '))[0].lower()}`"


def test_top_level_is_what_is_promised():
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout.split("\n")
    if not tracked[0]:
        pytest.skip("not a git checkout")
    top = {name.split("/")[0] for name in tracked if name}
    assert {"README.md", "environment.yml", "notebooks", "course_lib", "tests", "assets"} <= top


def test_contributing_draws_every_part():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    existing = {part_of(path) for path in modules()}
    missing = [part for part in existing if f"`{part}`" not in text and f"`course_lib/{part}" not in text]
    assert not missing, f"CONTRIBUTING.md does not place {missing}"


def test_every_dependency_earns_its_place_in_a_line():
    import tomllib

    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = wanted["dependencies"] + [
        n for group in wanted.get("optional-dependencies", {}).values() for n in group
    ]
    text = (ROOT / "CONTRIBUTING.md").read_text().lower()
    absent = [name for name in names if requirement(name) not in text]
    assert not absent, f"CONTRIBUTING.md does not say why {absent}"
