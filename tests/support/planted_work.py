"""Work of learners for three lessons, right, wrong and dishonest, planted into what nbgrader hands out."""

from __future__ import annotations

import ast
import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

Notebook = dict[str, Any]

ANSWERS = {  # by lesson, the names that a learner's cell defines, with a wrong body for some: a named mistake
    "00_start_here": {
        "my_share": "    size = num_items // world_size\n    return range(rank * size, (rank + 1) * size)",
        "global_mean": (
            "    mean = values.mean() if len(values) else torch.zeros((), dtype=values.dtype)\n"
            "    dist.all_reduce(mean)\n    return float(mean / me.world_size)"
        ),
        "mended_report": None,
    },
    "02a_collectives": {
        "ring_all_reduce": (
            "    parts = tensor.tensor_split(n)\n"
            "    for step in range(n - 1):\n"
            "        mine = parts[(me.rank - step - 1) % n]\n"
            "        arrived = torch.empty_like(mine)\n"
            "        exchange([send(parts[(me.rank - step) % n], after), recv(arrived, before)])\n"
            "        mine += arrived\n"
            "    return tensor"
        )
    },
    "04a_distributed_data_parallel": {
        "average_gradients": (
            "    for parameter in model.parameters():\n"
            "        if parameter.requires_grad:\n"
            "            if parameter.grad is None:\n"
            "                parameter.grad = torch.zeros_like(parameter)\n"
            "            dist.all_reduce(parameter.grad)"
        ),
        "start_early": None,
    },
}
MISTAKES = {
    "00.share": "drops-the-rest",
    "00.mean": "mean-of-means",
    "02.ring": "one-lap",
    "04.gradients": "sum-not-mean",
}
REDEFINES = """\
import course_lib.learn
from course_lib.learn.checks import checking
from course_lib.learn.display import verdict

def check(name, answer=...):
    return verdict.Verdict(name, "passed", "mine")

def need_passed(name):
    return None

checking.check = checking.judged = course_lib.learn.check = check
verdict.Verdict.passed = True
verdict.Verdict.__bool__ = lambda self: True
"""
NOISY = """\
import sys, threading, time

def complain():
    while True:
        print("a warning of some library", file=sys.stderr, flush=True)
        time.sleep(0.05)

threading.Thread(target=complain, daemon=True).start()
"""


def read(path: Path) -> Notebook:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        cell["source"] = "".join(cell["source"])
    return notebook


def about(cell: dict[str, Any]) -> dict[str, Any]:
    return cell["metadata"].get("nbgrader", {})


def answer_cell(notebook: Notebook, name: str) -> dict[str, Any]:
    return next(cell for cell in notebook["cells"] if about(cell).get("grade_id") == f"answer_{name}")


def tests_of(notebook: Notebook) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if about(cell).get("grade")]


def code_cell(text: str) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "execution_count": None,
        "id": "mine",
        "metadata": {},
        "outputs": [],
        "source": text,
    }


def short(notebook: Notebook) -> Notebook:
    """Imports, answers and checks alone, which is quick: a learner may delete all else."""
    kept = [cell for cell in notebook["cells"] if about(cell) or (cell["cell_type"] == "code" and _imports(cell))]
    return notebook | {"cells": kept}


def _imports(cell: dict[str, Any]) -> bool:
    """Whether a cell imports something, and beyond that only defines."""
    try:
        kinds = {type(one) for one in ast.parse(cell["source"]).body}
    except SyntaxError:
        return False
    return bool(kinds & {ast.Import, ast.ImportFrom}) and kinds <= {
        ast.Import,
        ast.ImportFrom,
        ast.FunctionDef,
    }


def with_bodies(notebook: Notebook, bodies: dict[str, str | None], solved: Notebook) -> Notebook:
    """Each answer by its body; the course's solution where the body is None."""
    for name, body in bodies.items():
        cell = answer_cell(notebook, name)
        if body is None:
            text = answer_cell(solved, name)["source"]
            cell["source"] = re.sub(r"^\s*### (BEGIN|END) SOLUTION.*\n?", "", text, flags=re.MULTILINE)
        else:
            stub = next(line for line in cell["source"].splitlines() if line.startswith("    raise NotImpl"))
            cell["source"] = cell["source"].replace(stub, body)
    return notebook


def right(notebook: Notebook, lesson: str, solved: Notebook) -> Notebook:
    return with_bodies(notebook, dict.fromkeys(ANSWERS[lesson]), solved)


def right_and_short(notebook: Notebook, lesson: str, solved: Notebook) -> Notebook:
    return short(right(notebook, lesson, solved))


def stub(notebook: Notebook, lesson: str, solved: Notebook) -> Notebook:
    return short(notebook)


def wrong(notebook: Notebook, lesson: str, solved: Notebook) -> Notebook:
    return short(with_bodies(notebook, ANSWERS[lesson], solved))


def crashing(notebook: Notebook, lesson: str, solved: Notebook) -> Notebook:
    """The first answer ends its process, the second raises where it is defined; a third one is right."""
    first, *others = ANSWERS[lesson]
    notebook = right_and_short(notebook, lesson, solved)
    answer_cell(notebook, first)["source"] = f"import os\n\ndef {first}(*given):\n    os._exit(3)"
    for name in others[:1]:
        answer_cell(notebook, name)["source"] = 'raise RuntimeError("out of patience")'
    return notebook


def tampering(notebook: Notebook, lesson: str, solved: Notebook) -> Notebook:
    """Nothing is solved; a check is emptied and worth a hundred, copied with another text, or deleted."""
    notebook = short(notebook)
    checks = tests_of(notebook)
    for cell in checks:
        cell["source"] = 'print("passed")'
        cell["metadata"]["nbgrader"]["points"] = 100
    notebook["cells"].append(copy.deepcopy(checks[0]) | {"id": "another"})
    elsewhere = copy.deepcopy(checks[0]) | {"id": "elsewhere"}
    elsewhere["metadata"]["nbgrader"]["grade_id"] = "check_99_elsewhere"
    notebook["cells"].append(elsewhere)
    if len(checks) > 1:
        notebook["cells"].remove(checks[-1])
    return notebook


def deleting(notebook: Notebook, lesson: str, solved: Notebook) -> Notebook:
    """All is solved, and every check deleted: they are put back."""
    notebook = right_and_short(notebook, lesson, solved)
    notebook["cells"] = [cell for cell in notebook["cells"] if not about(cell).get("grade")]
    return notebook


def redefining(notebook: Notebook, lesson: str, solved: Notebook) -> Notebook:
    notebook = short(notebook)
    first = notebook["cells"].index(tests_of(notebook)[0])
    notebook["cells"].insert(first, code_cell(REDEFINES))
    return notebook


def noisy(notebook: Notebook, lesson: str, solved: Notebook) -> Notebook:
    notebook = right_and_short(notebook, lesson, solved)
    notebook["cells"].insert(0, code_cell(NOISY))
    return notebook


STUDENTS: dict[str, Callable[[Notebook, str, Notebook], Notebook]] = {
    "right": right,
    "wrong": wrong,
    "crashes": crashing,
    "stub": stub,
    "tampers": tampering,
    "redefines": redefining,
}
MORE: dict[str, Callable[[Notebook, str, Notebook], Notebook]] = {  # for the lesson that is marked the fastest
    "deletes": deleting,
    "noisy": noisy,
    "shadows": stub,  # with a file that calls itself the course beside the notebook
}


def students_of(lesson: str) -> dict[str, Callable[[Notebook, str, Notebook], Notebook]]:
    return STUDENTS | (MORE if len(ANSWERS[lesson]) == 1 else {})


def points(lesson: str, student: str) -> float:
    """What a student has earned."""
    num = len(ANSWERS[lesson])
    right_ones = sum(body is None for body in ANSWERS[lesson].values())
    return {
        "right": num,
        "deletes": num,
        "noisy": num,
        "wrong": right_ones,
        "crashes": max(0, num - 2),
    }.get(student, 0)


def plant(folder: Path, lesson: str, student: str) -> None:
    """Hand in the work of one student: a file where nbgrader looks for it."""
    released = read(folder / "release" / lesson / f"{lesson}.ipynb")
    solved = read(folder / "source" / lesson / f"{lesson}.ipynb")
    place = folder / "submitted" / student / lesson
    place.mkdir(parents=True)
    work = students_of(lesson)[student](released, lesson, solved)
    (place / f"{lesson}.ipynb").write_text(json.dumps(work), encoding="utf-8")
    if student == "shadows":
        fake = place / "course_lib" / "learn" / "checks"
        fake.mkdir(parents=True)
        for package in (fake, fake.parent, fake.parent.parent):
            (package / "__init__.py").write_text("")
        (fake / "grading.py").write_text("def check(*given): pass\ndef need_passed(name): pass\n")
