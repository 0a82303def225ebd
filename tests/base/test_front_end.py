"""Which page shows a kernel's outputs, as far as a kernel is told."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from course_lib.base import front_end
from course_lib.plot.bundle import bundle_of


class Shell:
    """IPython's shell within a kernel."""

    kernel = object()

    def get_parent(self) -> dict[str, dict[str, str]]:
        return {"content": {"code": "1 + 1"}}


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch):
    def given(shell: object) -> None:
        monkeypatch.setitem(front_end.sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))

    for name in ("JPY_SESSION_NAME", "JPY_PARENT_PID"):
        monkeypatch.delenv(name, raising=False)
    given(Shell())
    return given


def test_a_kernel_by_itself_has_no_page(shell):
    assert not front_end.shown_by_server()
    assert front_end.server_root() is None
    assert front_end.running_cell() == "1 + 1"


def test_outside_a_kernel_nothing_is_shown(shell, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("JPY_SESSION_NAME", "/lessons/00.ipynb")
    for outside in (None, SimpleNamespace(user_ns={})):  # plain Python, IPython in a terminal
        shell(outside)
        assert not front_end.shown_by_server()
        assert front_end.running_cell() == ""
        front_end.at_cell_ends(lambda: None)


def test_a_page_that_is_not_of_course_lab_knows_no_texts_of_pictures(shell, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(front_end.IN_COURSE_LAB, raising=False)
    assert "text/html" not in bundle_of(b"x", "a box", (2, 1))[0], "nbconvert has a picture"
    monkeypatch.setenv("JPY_SESSION_NAME", "/lessons/00.ipynb")
    content, metadata = bundle_of(b"x", "a <box>", (2, 1))
    assert "alt='a &lt;box&gt;'" in content["text/html"]
    assert "width:2px" in content["text/html"]
    assert content["image/png"] == "eA=="
    assert metadata["image/png"]["width"] == 2
    monkeypatch.setenv(front_end.IN_COURSE_LAB, "1")
    assert "text/html" not in bundle_of(b"x", "a box", (2, 1))[0]


def test_a_server_says_which_folder_it_shows(shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("JPY_SESSION_NAME", "/lessons/00.ipynb")
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    assert front_end.shown_by_server()
    assert front_end.server_root() is None, "it has not said so"
    monkeypatch.setenv("JPY_PARENT_PID", "77")
    assert front_end.server_root() is None, "no file"
    for said, root in [
        ("no JSON", None),
        ("[]", None),
        (json.dumps({"root_dir": str(tmp_path)}), tmp_path.resolve()),
    ]:
        (tmp_path / "jpserver-77.json").write_text(said)
        assert front_end.server_root() == root
