"""What is kept of an answer: its source, with what it needs of the notebook, or a sentence on what cannot be kept."""

from __future__ import annotations

import functools

import pytest
from own_library import HELPERS, ZIGZAG, Notebook

from course_lib.mine.source.gather import gathered
from course_lib.mine.source.piece import NotKeptError


@pytest.fixture
def notebook():
    return Notebook()


def names_of(answer):
    return [part.name for part in gathered(answer).parts]


def text_of(answer, name):
    return next(part.text for part in gathered(answer).parts if part.name == name)


def test_helpers_imports_and_constants_come_along_before_what_uses_them(notebook):
    notebook.cell(HELPERS + "\n" + ZIGZAG)
    assert names_of(notebook["positions_of"]) == ["PARTS", "itertools", "both", "positions_of"]
    assert text_of(notebook["positions_of"], "itertools") == "import itertools"


def test_the_text_is_as_it_was_written_with_decorators_and_comments(notebook):
    answer = notebook.cell("""
        import torch
        @torch.no_grad()
        def clip(me, shards, max_norm):
            # mine
            return   max_norm
    """)
    assert text_of(notebook["clip"], "clip").splitlines() == [
        "@torch.no_grad()",
        "def clip(me, shards, max_norm):",
        "    # mine",
        "    return   max_norm",
    ]
    assert names_of(answer) == ["torch", "clip"]


def test_what_another_cell_has_imported_or_set_is_found_by_its_value(notebook):
    notebook.cell("import os.path as paths\nfrom collections import deque as row\nLIMIT = 3")
    answer = notebook.cell("def f():\n    return paths, row, LIMIT")
    assert text_of(answer, "paths") == "import posixpath as paths"
    assert text_of(answer, "row") == "from collections import deque as row"
    assert text_of(answer, "LIMIT") == "LIMIT = 3"


def test_the_last_definition_is_kept_and_not_an_earlier_one(notebook):
    notebook.cell("def helper():\n    return 1")
    notebook.cell("def helper():\n    return 2")
    answer = notebook.cell("def f():\n    return helper()")
    assert "return 2" in text_of(answer, "helper")


def test_a_name_of_a_library_is_kept_as_it_was_written(notebook):
    answer = notebook.cell("import torch\nTYPE = torch.float32\ndef f():\n    return TYPE")
    assert names_of(answer) == ["torch", "TYPE", "f"]
    assert text_of(answer, "TYPE") == "TYPE = torch.float32"


@pytest.mark.parametrize(
    ("text", "name", "says"),
    [
        ("import torch\nscale = torch.ones(2)\ndef f():\n    return scale", "f", "`scale` of the notebook, a Tensor"),
        ("def make(n):\n    def inner():\n        return n\n    return inner\nf = make(3)", "f", "holds `n`"),
        (
            "def make(n):\n    return lambda: n\ng = make(3)\ndef f():\n    return g()",
            "f",
            "`g` was made within",
        ),
        ("class F:\n    def __call__(self):\n        return 1\nf = F()", "f", "no function but a F"),
    ],
)
def test_what_cannot_be_kept_is_named_with_what_to_do(notebook, text, name, says):
    notebook.cell(text)
    with pytest.raises(NotKeptError, match=says) as told:
        gathered(notebook[name])
    assert any(word in str(told.value) for word in ("Give it as an argument", "Define it", "Write it as a `def`"))


def test_a_partial_and_a_function_without_a_name_or_a_text_are_told():
    with pytest.raises(NotKeptError, match="no function but a partial"):
        gathered(functools.partial(print, 1))
    space = {"__name__": "__main__"}
    exec("def f():\n    return 1", space)
    with pytest.raises(NotKeptError, match=r"text of its cell is not there any more\. Run the cell again"):
        gathered(space["f"])
    with pytest.raises(NotKeptError, match="no name in the notebook"):
        gathered(Notebook().cell("fs = [lambda: 1]")[0])
