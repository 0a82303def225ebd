"""A learner for the tests of `mine`: a home of their own, and cells that define answers as a notebook does."""

from __future__ import annotations

import itertools
import linecache
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from course_lib.learn.records import store as store_module
from course_lib.mine import budget, use

_numbers = itertools.count(1)

ZIGZAG = """
def positions_of(rank, num_ranks, num_tokens):
    base, extra = divmod(num_tokens, PARTS * num_ranks)
    return both(rank, PARTS * num_ranks - 1 - rank, base, extra)
"""
HELPERS = """
import itertools

PARTS = 2


def both(first, second, base, extra):
    begins = [(part, part * base + min(part, extra)) for part in (first, second)]
    return list(itertools.chain(*(range(at, at + base + (part < extra)) for part, at in begins)))
"""


class Notebook:
    """A name space and cells that run in it; each cell's text is where a traceback would look for it."""

    def __init__(self) -> None:
        self.space: dict[str, Any] = {"__name__": "__main__"}

    def cell(self, text: str) -> Any:
        """Run a cell; what its last name stands for."""
        text = textwrap.dedent(text).strip() + "\n"
        name = f"/tmp/ipykernel_test/{next(_numbers)}.py"
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        before = set(self.space)
        exec(compile(text, name, "exec", dont_inherit=True), self.space)
        new = [key for key in self.space if key not in before]
        return self.space[new[-1]] if new else None

    def __getitem__(self, name: str) -> Any:
        return self.space[name]


class Learner:
    """Somebody with a home: ``become`` makes this process theirs."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home, self._monkeypatch = home, monkeypatch

    def become(self) -> Learner:
        self._monkeypatch.setenv("COURSE_HOME", str(self.home))
        self._monkeypatch.setattr(use, "_told", set())
        self._monkeypatch.setattr(budget, "_spent_s", {})
        self._monkeypatch.setattr(budget, "_noted", set())
        return self

    @property
    def folder(self) -> Path:
        return self.home / "one-model-many-gpus" / "mine"

    @property
    def context(self) -> Path:
        return self.folder / "context.py"

    @property
    def progress(self) -> Path:
        return self.home / "data" / "progress.jsonl"


@pytest.fixture
def learners(tmp_path, monkeypatch) -> Callable[[str], Learner]:
    """``learners("anna")`` makes this process hers. Progress is kept, as outside of tests."""
    monkeypatch.setattr(store_module, "_is_off", lambda: False)
    for name in ("COURSE_MINE", "COURSE_FOLDER"):
        monkeypatch.delenv(name, raising=False)
    return lambda name: Learner(tmp_path / name, monkeypatch).become()


@pytest.fixture
def anna(learners) -> Learner:
    return learners("anna")


def zigzag_kept(capsys: Any) -> str:
    """The learner passes 10.zigzag, with a helper; what was said."""
    from course_lib import check

    notebook = Notebook()
    notebook.cell(HELPERS + "\n" + ZIGZAG)
    assert check("10.zigzag", notebook["positions_of"]).passed
    return capsys.readouterr().out
