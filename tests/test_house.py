"""The house stands as CONTRIBUTING.md draws it: floors, sizes, where the environment is read, what is named."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = ROOT / "course_lib"

# Each part of course_lib, by floor. A part imports from the floors below its own, and from no neighbour.
FLOORS = (
    ("base", "devices", "examples"),
    ("layouts", "schedules", "models", "data", "lessons", "forms", "environment", "rounding", "cli", "kernels"),
    ("cluster", "search"),
    ("meter", "nodes", "take_along", "lab"),
    ("cost", "parallel", "doctor", "own_job"),
    ("plan", "claims"),
    ("plot",),
    ("widgets", "capstone", "traces"),
    ("learn", "plan_command"),
    ("mine",),
    ("authoring", "classroom", "export", "start_page"),
)
FLOOR_OF = {part: floor for floor, parts in enumerate(FLOORS) for part in parts}
READS_ENVIRONMENT = {
    *("cluster", "base", "devices", "lab", "authoring", "cli", "learn", "environment", "claims", "nodes"),
    *("take_along", "classroom", "rounding", "examples", "mine", "kernels"),
}
pytestmark = pytest.mark.xdist_group("house")  # each file is read once, and not by every process
MOST_LINES = 300
MOST_LINES_OF_A_FUNCTION = 50


@cache
def modules() -> list[Path]:
    return sorted(path for path in LIBRARY.rglob("*.py") if path != LIBRARY / "__init__.py")


@cache
def text_of(path: Path) -> str:
    return path.read_text()


class Read(NamedTuple):
    """What the tests below ask of a file. Its tree, which is much larger, is not kept."""

    docstring: str | None
    first_lines: list[str]  # of all docstrings: its own, and those of classes and functions
    imports: list[ast.Import | ast.ImportFrom]  # anywhere in it: also within functions, and for types alone
    functions: list[tuple[str, int]]  # their names and numbers of lines


def docstring_of(node: ast.AST) -> str | None:
    return ast.get_docstring(node) if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) else None


@cache
def read(path: Path) -> Read:
    tree = ast.parse(text_of(path))
    nodes = list(ast.walk(tree))
    return Read(
        ast.get_docstring(tree),
        [docstring.partition("\n")[0] for node in nodes if (docstring := docstring_of(node))],
        [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)],
        [(node.name, node.end_lineno - node.lineno + 1) for node in nodes if isinstance(node, ast.FunctionDef)],
    )


def part_of(path: Path) -> str:
    return path.relative_to(LIBRARY).parts[0].removesuffix(".py")


def imports_of(path: Path) -> set[str]:
    """The parts of course_lib that a module imports, anywhere in it."""
    parts = set()
    for node in read(path).imports:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            names = []
        parts |= {name.split(".")[1] for name in names if name.startswith("course_lib.")}
    return parts & FLOOR_OF.keys()


def test_every_part_has_a_floor():
    assert not {part_of(path) for path in modules()} - FLOOR_OF.keys(), "add it here and in CONTRIBUTING.md"


def test_a_part_imports_from_lower_floors_alone():
    wrong = [
        f"{path.relative_to(LIBRARY)}, on floor {FLOOR_OF[part_of(path)]}, imports {other} of floor {FLOOR_OF[other]}"
        for path in modules()
        for other in sorted(imports_of(path) - {part_of(path)})
        if FLOOR_OF[other] >= FLOOR_OF[part_of(path)]
    ]
    assert not wrong, "\n".join(wrong)


def test_cost_is_arithmetic_and_needs_no_torch():
    parts = ("cost", "plan", "schedules")
    for path in [path for part in parts for path in (LIBRARY / part).rglob("*.py")]:
        assert not re.search(r"^\s*(import|from) torch\b", text_of(path), re.MULTILINE), path


# Two parts that stand on the same ground, a schedule, and not on each other.
STRANGERS = [("cost", "parallel"), ("parallel", "cost"), ("schedules", "cost"), ("schedules", "parallel")]
# The planner stands on cost alone.
STRANGERS += [("cost", "plan"), ("plan", "parallel"), ("parallel", "plan")]


@pytest.mark.parametrize(("part", "other"), STRANGERS)
def test_a_schedule_is_the_ground_of_two_parts_that_do_not_know_each_other(part, other):
    leaning = [str(path) for path in modules() if part_of(path) == part and other in imports_of(path)]
    assert not leaning, f"{part} imports from {other}"


@pytest.mark.parametrize("path", sorted((LIBRARY / "examples").glob("*/*.py")), ids=lambda path: path.name)
def test_a_program_to_take_home_asks_for_torch_alone(path):
    allowed = sys.stdlib_module_names | {"torch", "torchvision", "PIL"}
    for node in read(path).imports:
        modules = [node.module] if isinstance(node, ast.ImportFrom) and node.level == 0 else []
        modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        assert {module.partition(".")[0] for module in modules if module} <= allowed


# -- circles ---------------------------------------------------------------------------------------------------------


def files_imported_by(path: Path) -> set[Path]:
    """The files of course_lib that a module imports, anywhere in it: also within functions, and for types alone."""
    names = set()
    for node in read(path).imports:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.ImportFrom) and part_of(path) == "examples":  # whose folders are to be copied
            package = ".".join(path.parent.relative_to(ROOT).parts)
            names.add(f"{package}.{node.module}")
        elif isinstance(node, ast.ImportFrom):
            raise AssertionError(f"{path}: import by the whole name, from course_lib")
    files = {ROOT / f"{name.replace('.', '/')}.py" for name in names if name.startswith("course_lib.")}
    return {file for file in files if file.exists()}


def circles(imports: dict[Path, set[Path]]) -> list[set[Path]]:
    """Sets of files that import each other, directly or in a ring: strongly connected, and more than one."""

    def reached(start: Path) -> set[Path]:
        found, ahead = set(), [start]
        while ahead:
            new = imports.get(ahead.pop(), set()) - found
            found |= new
            ahead += new
        return found

    reach = {path: reached(path) for path in imports}
    return [{path, other} for path in reach for other in reach[path] if path in reach.get(other, ()) and path < other]


def test_no_files_import_each_other_in_a_circle():
    found = circles({path: files_imported_by(path) for path in modules()})
    assert not found, [sorted(str(path.relative_to(LIBRARY)) for path in pair) for pair in found]


def test_a_circle_would_be_seen():
    a, b, c = (Path(name) for name in "abc")
    assert circles({a: {b}, b: {c}, c: set()}) == []
    assert len(circles({a: {b}, b: {c}, c: {a}})) == 3


# -- rooms: folders of modules ---------------------------------------------------------------------------------------

MOST_FILES = 15
# Exercises become folders of their own; until then a lesson's lie flat. Programs to take home and what stands in for
# packages that a GPU machine may lack are no rooms of the course.
NO_ROOMS = ("learn/exercises/", "examples/", "authoring/bench/gpu/stand_ins/")


def rooms() -> list[str]:
    found = sorted({path.parent.relative_to(LIBRARY).as_posix() for path in modules()} - {"."})
    return [room for room in found if not f"{room}/".startswith(NO_ROOMS)]


def files_of(room: str) -> set[str]:
    return {path.name for path in (LIBRARY / room).glob("*.py")} - {"__init__.py"}


def test_rooms_do_not_import_each_other_in_a_circle():
    """A face is not counted: it names what is behind it, and loads nothing of it."""
    imports: dict[Path, set[Path]] = {}
    for path in modules():
        if path.name != "__init__.py" and path.parent != LIBRARY:
            others = {other.parent for other in files_imported_by(path) if other.name != "__init__.py"}
            imports.setdefault(path.parent, set()).update(others - {path.parent, LIBRARY})
    found = circles(imports)
    assert not found, [sorted(str(room.relative_to(LIBRARY)) for room in pair) for pair in found]


def test_a_room_can_be_looked_over():
    crowded = {room: len(files_of(room)) for room in rooms() if len(files_of(room)) > MOST_FILES}
    assert not crowded, f"at most {MOST_FILES} files to a room"


@pytest.mark.parametrize("room", rooms())
def test_a_face_names_what_is_in_its_room_in_the_order_to_read(room):
    face = ast.get_docstring(ast.parse((LIBRARY / room / "__init__.py").read_text()))
    assert face, "a room without a face"
    if len(files_of(room)) < 2:
        return
    missing = {name for name in files_of(room) if f"``{name}``" not in face}
    assert not missing, f"the face of {room} does not name {sorted(missing)}"
    named = set(re.findall(r"^- ``([\w/]+\.py)``", face, re.MULTILINE))
    gone = {name for name in named if not (LIBRARY / room / name).is_file()}
    assert not gone, f"the face of {room} names {sorted(gone)}, which is not there"


def test_no_name_of_a_lazy_face_is_hidden_by_a_room_or_a_file_of_that_name():
    """``import package.name`` sets ``package.name`` to the module, and the face's own name would be gone."""
    hidden = []
    for face in LIBRARY.rglob("__init__.py"):
        if "loads_when_used(" in text_of(face):
            names = set(re.findall(r'^    "(\w+)": "', text_of(face), re.MULTILINE))
            beside = {path.relative_to(face.parent).parts[0].removesuffix(".py") for path in face.parent.rglob("*.py")}
            hidden += [f"{face.parent.relative_to(LIBRARY)}.{name}" for name in sorted(names & beside)]
    assert not hidden


# -- doors: what comes along with an import ----------------------------------------------------------------------------

# Files with code, faces not counted, that an import loads. Whoever reads a strategy has so many files to know of.
MOST_LOADED = {
    "course_lib.parallel.data.distributed_data_parallel": 14,
    "course_lib.parallel.sharded.fully_sharded": 26,
    "course_lib.parallel.pipeline.runtime": 34,
    "course_lib.parallel.context.ring": 16,
    "course_lib.parallel.experts.expert_parallel": 18,
    "course_lib.parallel.model.model_parallel": 20,
    "course_lib.parallel.tensor.layers": 20,
    "course_lib.plan": 60,
    "course_lib.cost": 64,
}
_LOADED = """
import importlib, json, os, sys
import torch.distributed
loaded = {}
for door in sys.argv[1:]:
    reader, writer = os.pipe()
    if not os.fork():
        face = importlib.import_module(door)
        if hasattr(face, "__path__"):  # all that the face offers
            [getattr(face, name) for name in face.__all__]
        names = [
            name for name, module in list(sys.modules.items())
            if name.startswith("course_lib.") and not hasattr(module, "__path__")
        ]
        os.write(writer, json.dumps(names).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        loaded[door] = json.loads(pipe.read())
    os.wait()
print(json.dumps(loaded))
"""


@cache
def loaded_by() -> dict[str, list[str]]:
    done = subprocess.run([sys.executable, "-c", _LOADED, *MOST_LOADED], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.parametrize("door", MOST_LOADED)
def test_a_door_opens_on_few_files(door):
    found = loaded_by()[door]
    assert len(found) <= MOST_LOADED[door], sorted(found)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.parametrize("door", ["course_lib.plan", "course_lib.cost"])
def test_arithmetic_loads_no_rank(door):
    assert not [name for name in loaded_by()[door] if name.startswith("course_lib.cluster.")]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_strategy_loads_no_measuring_tool():
    doors = [door for door in MOST_LOADED if door.startswith("course_lib.parallel.")]
    tools = ("course_lib.meter.", "course_lib.plot.", "course_lib.cost.")
    assert not {name for door in doors for name in loaded_by()[door] if name.startswith(tools)}


# -- the rooms of parallel -------------------------------------------------------------------------------------------
ROOMS = ("collectives", "data", "sharded", "model", "pipeline", "tensor", "mesh", "context", "experts", "jobs")


def test_parallel_is_rooms_and_no_loose_files():
    parallel = LIBRARY / "parallel"
    assert {path.name for path in parallel.glob("*.py")} == {"__init__.py"}
    assert {path.parent.name for path in parallel.glob("*/__init__.py")} == set(ROOMS)
    order = re.findall(r"^    (\w+)  ", ast.get_docstring(ast.parse((parallel / "__init__.py").read_text())), re.M)
    assert tuple(order) == ROOMS, "the face of parallel names the rooms in the order of the lessons"


@pytest.mark.parametrize("room", [*(f"parallel/{room}" for room in ROOMS), "schedules"])
def test_a_room_says_what_is_in_it_and_which_lesson_it_belongs_to(room):
    face = ast.get_docstring(ast.parse((LIBRARY / room / "__init__.py").read_text()))
    assert re.search(r"[Ll]essons? \d\d", face), "its lesson is not named"


def test_exercises_have_a_room_a_lesson_and_a_file_each():
    folder = LIBRARY / "learn" / "exercises"
    assert {path.name for path in folder.glob("*.py")} == {"__init__.py"}
    for path in folder.glob("lesson_*/*.py"):
        exercises = re.findall(r"^[A-Z_0-9]+ = Exercise\($", text_of(path), re.MULTILINE)
        assert len(exercises) <= 1, f"{path}: {len(exercises)} exercises in one file"


def test_assets_are_pictures_and_measurements():
    kinds = {path.suffix for path in (ROOT / "assets").rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    # ".md": the page beside a measurement of `course bench gpu`; ".csv": rows that others published.
    assert kinds - {".md", ".csv"} == {".png", ".json"}


def test_what_there_is_once():
    text = {path: text_of(path) for path in modules()}
    for wanted in (r"^class Link\b", r'add_argument\(\s*"--rounds"', r'add_argument\(\s*"--json", type'):
        homes = [str(path.relative_to(LIBRARY)) for path in text if re.search(wanted, text[path], re.MULTILINE)]
        assert len(homes) == 1, f"{wanted} stands in {homes}"


# -- names -----------------------------------------------------------------------------------------------------------

# Classes that share a name, and why. One public name has one meaning.
ONE_NAME = {
    "Attention": "the layer, and its shape in a formula, as Linear and Conv2d there",
    "Evidence": "of a claim's trial, which learners print; of an answer, for its judge",
}
# Words of our own that a name of a file may not have (docs/maintaining/words.md).
OLD_WORDS = re.compile(
    r"(^|_)(hope|remains|standing|borrow|patience|surroundings|keeper|warden|wire|taps|beside|begun|whereabouts|drawn"
    r"|leftover|neighbours|entering|conjugates|travel|growing|wishes)(_|$)"
)
# And those that no docstring's first line may have. The others of that page are words of every day elsewhere.
OLD_TERMS = re.compile(
    r"\b(hope|hopeless|remains|left over|standings?|borrow\w*|under way|on (its|their) way|patience|surroundings"
    r"|keeper|warden|storeys?|there and back|travel\w*|parcels?|wishes|obituar\w*|census|witness\w*)\b",
    re.IGNORECASE,
)
# Of a tensor in a sharded model, "whole" is "full" or "unsharded"; of rank in a group, "place" is its group rank.
OLD_TERMS_IN = {
    "parallel/sharded": re.compile(r"\bwhole (again|weights|gradients|tensors?|parameters?|states)\b", re.IGNORECASE),
    "parallel/context": re.compile(r"\b(the place|(own|each|next|of a|all) places?)\b", re.IGNORECASE),
    "parallel/collectives": re.compile(r"\b(same place|own place)\b", re.IGNORECASE),
    "cost/collectives": re.compile(r"\b(same place|own place)\b", re.IGNORECASE),
}
OF_THE_FIELD = {"meter/communication/wire_bytes.py", "doctor/keeper.py"}  # bytes on the wire; who keeps a folder


def test_one_public_name_has_one_meaning():
    homes: dict[str, list[str]] = {}
    for path in modules():
        if "examples" not in path.parts and "stand_ins" not in path.parts:
            for name in re.findall(r"^class ([A-Z]\w*)", text_of(path), re.MULTILINE):
                homes.setdefault(name, []).append(path.relative_to(LIBRARY).as_posix())
    twice = {name: files for name, files in homes.items() if len(files) > 1}
    assert twice.keys() == ONE_NAME.keys(), {name: twice[name] for name in twice.keys() - ONE_NAME.keys()}


def test_files_are_named_by_the_field():
    names = [path.relative_to(LIBRARY).as_posix() for path in modules()]
    ours = [name for name in names if OLD_WORDS.search(Path(name).stem) and name not in OF_THE_FIELD]
    assert not [name for name in ours if not name.startswith("learn/exercises/")], ours


def test_first_lines_of_docstrings_are_in_the_fields_terms():
    old = []
    for path in modules():
        name = path.relative_to(LIBRARY).as_posix()
        terms = [OLD_TERMS, *(pattern for room, pattern in OLD_TERMS_IN.items() if name.startswith(f"{room}/"))]
        for line in read(path).first_lines:
            old += [f"{name}: {found[0]!r} in: {line}" for one in terms if (found := one.search(line))]
    assert not old, "docs/maintaining/words.md has the field's terms for\n" + "\n".join(old)


# -- files -----------------------------------------------------------------------------------------------------------


def test_files_and_functions_stay_small_enough_to_read():
    long = []
    for path in modules():
        text = text_of(path)
        if text.count("\n") > MOST_LINES:
            long.append(f"{path.name}: {text.count(chr(10))} lines")
        long += [
            f"{path.name}: {name} has {lines} lines"
            for name, lines in read(path).functions
            if lines > MOST_LINES_OF_A_FUNCTION
        ]
    assert not long, "\n".join(long)


def test_every_module_says_what_it_is():
    silent = [str(path.relative_to(ROOT)) for path in modules() if not read(path).docstring]
    assert not silent


def test_the_environment_is_read_in_few_places():
    readers = {part_of(path) for path in modules() if re.search(r"os\.(environ|getenv)", text_of(path))}
    assert readers <= READS_ENVIRONMENT, readers - READS_ENVIRONMENT


def test_no_process_is_ended_by_name_and_no_port_is_fixed():
    for path in modules():
        text = text_of(path)
        # what stands in for such commands in the dry run of a learner's script ends nothing
        assert path.match("take_along/stand_ins.py") or not re.search(r"pkill|killall", text), path
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


def test_the_picture_of_the_house_shows_every_part():
    text = (ROOT / "docs" / "maintaining" / "architecture.md").read_text().partition("```\n")[2].partition("```")[0]
    absent = [part for part in FLOOR_OF if not re.search(rf"\b{part}\b", text)]
    assert not absent, f"docs/maintaining/architecture.md does not place {absent}"


def test_every_dependency_earns_its_place_in_a_line():
    import tomllib

    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = wanted["dependencies"] + [n for group in wanted.get("optional-dependencies", {}).values() for n in group]
    text = (ROOT / "CONTRIBUTING.md").read_text().lower()
    absent = [name for name in names if requirement(name) not in text]
    assert not absent, f"CONTRIBUTING.md does not say why {absent}"
