"""What the programs to take home have in common is the same to the letter: the tests of one hold for the other.

Each folder stands alone when it is copied, so they cannot share a file.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import course_lib

EXAMPLES = Path(course_lib.__file__).parent / "examples"

COMMON = {
    ("saving.py", "saving.py"): ("Saver", "check_whole", "_damage", "_words"),
    ("settings.py", "settings.py"): ("SettingsError", "_whole", "_number", "_above_0", "learning_rate"),
    ("shards.py", "cutting.py"): ("fill", "_draw", "make_optimizer"),
    ("text.py", "text.py"): ("Text", "load_text", "_python_topics", "_mapped"),
    ("train.py", "train.py"): ("load_same_text", "train_steps"),
}


def code_of(file: Path, name: str) -> str:
    """A function or class of a file, without its docstrings."""
    tree = ast.parse(file.read_text())
    (found,) = [node for node in tree.body if getattr(node, "name", None) == name]
    for node in ast.walk(found):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node):
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(found)


@pytest.mark.parametrize("name", ["keeping.py", "start.py"])
def test_whole_files(name):
    assert (EXAMPLES / "train_mesh" / name).read_text() == (EXAMPLES / "train_fsdp" / name).read_text()


@pytest.mark.parametrize(
    ("files", "name"), [(files, name) for files, names in COMMON.items() for name in names], ids=str
)
def test_functions_and_classes(files, name):
    assert code_of(EXAMPLES / "train_fsdp" / files[0], name) == code_of(EXAMPLES / "train_mesh" / files[1], name)
