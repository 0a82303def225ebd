"""The notebook builder: from py:percent to the learner's copy and the executed, solved copy."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import nbformat
import psutil
import pytest
from jupyter_client.manager import AsyncKernelManager

from course_lib.authoring.notebooks.cli import main
from course_lib.authoring.notebooks.writing import build as build_module
from course_lib.authoring.notebooks.writing.build import build, find_sources, stale
from course_lib.lessons import LessonError, LessonInfo, lesson_info, lessons
from course_lib.lessons.convert import learner_notebook, rebase_links, solution_shell, to_text
from course_lib.lessons.info import source_files
from course_lib.lessons.kernel_sockets import listen_at_files
from course_lib.lessons.regions import learner_text, solution_text
from course_lib.lessons.source import parse_source

HEAD = """\
# %% [markdown]
# # 05 · A tiny lesson
#
# You learn to double.
# ![two boxes and an arrow](../assets/a.png)
#
# **10 minutes · difficulty 2 of 5 · needs: cpu**
"""
TINY = (
    HEAD
    + '''
# %%
import os

print(2 + 2, os.environ["COURSE_PROGRESS"], "COURSE_HOME" in os.environ)


# %%
def double(a: int) -> int:
    """Twice a."""
    # 1. add a to itself
    ### BEGIN SOLUTION: give back twice a
    return a + a
    ### END SOLUTION


# %% tags=["raises-exception"]
### BEGIN SOLUTION
### STUB answer = None
answer = double(4)
### END SOLUTION
print(answer)
raise ValueError("shown on purpose")

# %%
import ipywidgets

ipywidgets.IntText(3, description="n")
'''
)


def write_lesson(root: Path, text: str = TINY, stem: str = "05_tiny") -> Path:
    source = root / "notebooks" / "src" / f"{stem}.py"
    source.parent.mkdir(parents=True, exist_ok=True)
    source.write_text(text, encoding="utf-8")
    return source


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root whose one lesson has been built. Tests that change it take a copy (``root``)."""
    root = tmp_path_factory.mktemp("built")
    write_lesson(root)
    assert main([], root=root) == 0
    return root


@pytest.fixture
def root(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "root"))


def read(root: Path, *, solution: bool = False) -> nbformat.NotebookNode:
    folder = root / "notebooks" / "solutions" if solution else root / "notebooks"
    return nbformat.read(folder / "05_tiny.ipynb", as_version=4)


def edit(root: Path, old: str, new: str) -> None:
    source = root / "notebooks" / "src" / "05_tiny.py"
    text = source.read_text(encoding="utf-8")
    assert old in text
    source.write_text(text.replace(old, new), encoding="utf-8")


def files(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}


class TestLabel:
    def test_it_is_read_from_source_and_from_both_notebooks(self, built: Path):
        expected = LessonInfo(
            "05",
            "tiny",
            "A tiny lesson",
            "You learn to double. ![two boxes and an arrow](../assets/a.png)",
            10,
            2,
            "cpu",
        )
        notebooks = built / "notebooks"
        assert lesson_info(notebooks / "src" / "05_tiny.py") == expected
        assert lesson_info(notebooks / "05_tiny.ipynb") == expected
        assert lesson_info(notebooks / "solutions" / "05_tiny.ipynb").minutes == 10
        assert lessons(built) == [expected]

    @pytest.mark.parametrize(
        ("old", "new", "phrase"),
        [
            ("# # 05 · A tiny lesson", "# # A tiny lesson", "title line"),
            ("# # 05 ·", "# # 06 ·", "the title says lesson 06, the file name 05"),
            ("**10 minutes", "**some minutes", "minutes, difficulty and needs"),
            ("difficulty 2", "difficulty 7", "from 1 to 5"),
            ("10 minutes", "900 minutes", "from 5 to 180"),
            ("needs: cpu", "needs: a tpu", "cpu, one gpu, many gpus"),
            ("# You learn to double.\n# ![two boxes and an arrow](../assets/a.png)", "#", "promise"),
            ("# %% [markdown]", "# %%", "title line"),
        ],
    )
    def test_a_missing_part_is_named(self, tmp_path: Path, old: str, new: str, phrase: str):
        assert old in TINY
        source = write_lesson(tmp_path, TINY.replace(old, new, 1))
        with pytest.raises(LessonError, match=re.escape(phrase)) as caught:
            lesson_info(source)
        assert "05_tiny.py" in str(caught.value)

    def test_a_part_has_a_letter_and_says_of_which_lesson_it_is(self, tmp_path: Path):
        text = TINY.replace("# # 05 · A tiny lesson", "# # 05b · A tiny lesson: the rest")
        source = write_lesson(tmp_path, text, stem="05b_the_rest")
        write_lesson(tmp_path, TINY.replace("# # 05 ·", "# # 06 ·"), stem="06_next")
        info = lesson_info(source)
        assert (info.number, info.part, info.label, info.stem) == ("05", "b", "05b", "05b_the_rest")
        assert (info.title, info.lesson_title) == ("A tiny lesson: the rest", "A tiny lesson")
        assert source_files(tmp_path, "05") == find_sources(tmp_path, ["05"]) == [source]
        assert find_sources(tmp_path, ["05b"]) == [source]
        with pytest.raises(LessonError, match="no lesson '05a'"):
            find_sources(tmp_path, ["05a"])
        source.write_text(TINY.replace("# # 05 ·", "# # 05b ·"), encoding="utf-8")
        with pytest.raises(LessonError, match="Lesson: what this part is"):
            lesson_info(source)

    def test_a_file_needs_number_and_name(self, tmp_path: Path):
        with pytest.raises(LessonError, match="NN_name"):
            lesson_info(write_lesson(tmp_path, stem="tiny"))


def where(line: int) -> str:
    return f"05_tiny.py:{line}"


class TestRegions:
    def test_in_a_function_the_learner_gets_a_stub_at_the_same_indent(self):
        text = "def f(a):\n    # 1. plan\n    ### BEGIN SOLUTION\n    b = a\n    return b\n    ### END SOLUTION"
        assert learner_text(text, where) == (
            'def f(a):\n    # 1. plan\n    raise NotImplementedError("Your turn: write the body of f")'
        )
        assert solution_text(text, where) == "def f(a):\n    # 1. plan\n    b = a\n    return b"

    def test_the_task_may_be_named_and_may_hold_quotes(self):
        text = 'def f():\n    ### BEGIN SOLUTION: say "hi"\n    return "hi"\n    ### END SOLUTION'
        scope: dict = {}
        exec(learner_text(text, where), scope)
        with pytest.raises(NotImplementedError, match=r'^Your turn: say "hi"$'):
            scope["f"]()

    def test_at_the_top_level_it_is_an_ellipsis_or_the_given_stub(self):
        plain = "### BEGIN SOLUTION\nx = 1\n### END SOLUTION\nprint(1)"
        assert learner_text(plain, where) == "...\nprint(1)"
        stub = "### BEGIN SOLUTION\n### STUB x = None\n### STUB y = ...\nx = y = 1\n### END SOLUTION\nprint(x)"
        assert learner_text(stub, where) == "x = None\ny = ...\nprint(x)"
        assert solution_text(stub, where) == "x = y = 1\nprint(x)"

    def test_several_regions_in_a_cell(self):
        text = "### BEGIN SOLUTION\na = 1\n### END SOLUTION\nb = 2\n### BEGIN SOLUTION\nc = 3\n### END SOLUTION"
        assert learner_text(text, where) == "...\nb = 2\n..."
        assert solution_text(text, where) == "a = 1\nb = 2\nc = 3"

    @pytest.mark.parametrize(
        ("text", "line", "phrase"),
        [
            ("x = 1\n### BEGIN SOLUTION\ny = 2", 2, "no '### END SOLUTION'"),
            ("x = 1\n### END SOLUTION", 2, "no '### BEGIN SOLUTION'"),
            (
                "### BEGIN SOLUTION\nx = 1\n### BEGIN SOLUTION\n### END SOLUTION",
                3,
                "inside the one of 05_tiny.py:1",
            ),
            ("### BEGIN SOLUTION\n\n### END SOLUTION", 1, "empty"),
            ("### BEGIN SOLUTION\nx = 1\n### STUB x = None\n### END SOLUTION", 3, "directly after"),
            ("# BEGIN SOLUTION\nx = 1\n### END SOLUTION", 1, "looks like a solution marker"),
            ("### Begin Solution\nx = 1", 1, "looks like a solution marker"),
            ("### STUB x = None", 1, "looks like a solution marker"),
        ],
    )
    def test_a_broken_region_is_named_by_its_line(self, text: str, line: int, phrase: str):
        for convert in (learner_text, solution_text):
            with pytest.raises(LessonError, match=re.escape(phrase)) as caught:
                convert(text, where)
            assert str(caught.value).startswith(f"05_tiny.py:{line}: ")


class TestConversion:
    def test_lines_of_the_source_are_known(self, tmp_path: Path):
        source = parse_source(TINY, tmp_path / "05_tiny.py")
        lines = TINY.splitlines()
        for cell in source.cells:
            assert lines[cell.line - 1].removeprefix("# ") == cell.text.splitlines()[0]
        assert source.where(source.cells[1], 3) == f"05_tiny.py:{lines.index(lines[source.cells[1].line + 1]) + 1}"

    def test_a_cell_magic_is_written_as_a_comment(self, tmp_path: Path):
        source = parse_source(HEAD + "\n# %%\n# %%ranks -n 4\nprint(me.rank)\n", tmp_path / "05_tiny.py")
        assert source.cells[1].text == "%%ranks -n 4\nprint(me.rank)"

    def test_ids_come_from_the_content(self, tmp_path: Path):
        twice = HEAD + "\n# %%\nx = 1\n\n# %%\ny = 2\n\n# %%\nx = 1\n"
        path = tmp_path / "05_tiny.py"
        ids = [cell.id for cell in parse_source(twice, path).cells]
        assert len(set(ids)) == 4
        assert ids[3] == f"{ids[1]}-2"
        with_one_more = twice.replace("# %%\ny = 2", "# %%\nz = 3\n\n# %%\ny = 2")
        assert set(ids) < {cell.id for cell in parse_source(with_one_more, path).cells}

    @pytest.mark.parametrize(
        ("text", "phrase"),
        [
            ("x = 1\n", "there is no cell"),
            ("x = 1\n" + TINY, "before the first"),
            (TINY + "\n# %%\n", "empty"),
            (
                TINY + "\n# %% [markdown]\n# The end.\n\nprint('never run')\n",
                r"05_tiny\.py:40: a line of a markdown cell begins with '#', and this one is \"print\('never run'\)\"",
            ),
            (HEAD + "x = 1\n\n# %%\n2\n", r"05_tiny\.py:8: .* put a line '# %%' above it"),
        ],
    )
    def test_a_broken_source_is_named(self, tmp_path: Path, text: str, phrase: str):
        with pytest.raises(LessonError, match=phrase):
            parse_source(text, tmp_path / "05_tiny.py")

    def test_a_source_that_is_no_text_is_named(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        path = write_lesson(tmp_path)
        path.write_bytes(TINY.encode() + b"# \xff\xfe")
        assert main(["--check"], root=tmp_path) == 1
        place = len(TINY.encode()) + 3
        assert f"05_tiny.py is no text in UTF-8: byte {place} of it does not fit" in capsys.readouterr().err

    def test_two_conversions_give_the_same_bytes(self, tmp_path: Path):
        source = parse_source(TINY, tmp_path / "05_tiny.py")
        for convert in (learner_notebook, solution_shell):
            text = to_text(convert(source))
            assert text == to_text(convert(source))
            nbformat.validate(nbformat.reads(text, as_version=4))
            assert json.loads(text)["nbformat_minor"] == 5

    @pytest.mark.parametrize(
        ("markdown", "expected"),
        [
            ("![a](../assets/a.png)", "![a](../../assets/a.png)"),
            ("[x](06_next.ipynb#A-heading)", "[x](../06_next.ipynb#A-heading)"),
            ("[x](solutions/05_tiny.ipynb)", "[x](05_tiny.ipynb)"),
            ('<img src="../assets/a.png" alt="b">', '<img src="../../assets/a.png" alt="b">'),
            ("[x](https://pytorch.org/a) [y](#here)", "[x](https://pytorch.org/a) [y](#here)"),
            ("```\n[x](../a.md)\n```\nand `[x](../a.md)`", "```\n[x](../a.md)\n```\nand `[x](../a.md)`"),
        ],
    )
    def test_links_of_the_solved_copy_lead_to_the_same_place(self, markdown: str, expected: str):
        assert rebase_links(markdown, "solutions") == expected


class TestBuild:
    def test_the_learners_copy_has_stubs_and_no_outputs(self, built: Path):
        text = (built / "notebooks" / "05_tiny.ipynb").read_text()
        cells = read(built).cells
        assert 'raise NotImplementedError(\\"Your turn: give back twice a\\")' in text
        assert "a + a" not in text
        assert "SOLUTION" not in text
        assert all(not cell.outputs and cell.execution_count is None for cell in cells if cell.cell_type == "code")
        assert cells[3].metadata.tags == ["raises-exception"]

    def test_the_solved_copy_is_executed_with_progress_off(self, built: Path):
        cells = [cell for cell in read(built, solution=True).cells if cell.cell_type == "code"]
        assert [cell.execution_count for cell in cells] == [1, 2, 3, 4]
        assert cells[0].outputs[0].text == "4 off True\n"
        assert cells[2].outputs[0].text == "8\n"
        assert cells[2].outputs[1].ename == "ValueError"
        assert "SOLUTION" not in cells[1].source
        assert "a + a" in cells[1].source
        assert "../../assets/a.png" in read(built, solution=True).cells[0].source

    def test_nothing_in_it_differs_from_run_to_run(self, root: Path):
        before = files(root)
        assert main(["--force"], root=root) == 0
        assert files(root) == before
        solution = read(root, solution=True)
        assert list(solution.cells[4].outputs[0].data) == ["text/plain"]
        assert "widgets" not in solution.metadata

    def test_cells_have_one_id_in_both_copies(self, built: Path):
        ids = [cell.id for cell in read(built).cells]
        assert ids == [cell.id for cell in read(built, solution=True).cells]
        assert len(set(ids)) == len(ids)

    def test_what_has_not_changed_is_not_run(self, root: Path, monkeypatch: pytest.MonkeyPatch, capsys):
        monkeypatch.setattr(build_module, "execute", None)
        before = files(root)
        assert main([], root=root) == 0
        assert "unchanged: 05_tiny" in capsys.readouterr().out
        assert files(root) == before

    def test_new_prose_keeps_the_outputs_and_runs_nothing(self, root: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(build_module, "execute", None)
        edit(root, "learn to double", "shall learn to double")
        assert main(["--check"], root=root) == 1
        assert main([], root=root) == 0
        assert main(["--check"], root=root) == 0
        assert "shall learn" in read(root, solution=True).cells[0].source
        assert read(root, solution=True).cells[1].outputs[0].text == "4 off True\n"

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ("2 + 2", "2 + 3"),
            ("    return a + a\n", "    return 2 * a\n"),
            ("# %%\nimport ipyw", '# %% tags=["x"]\nimport ipyw'),
        ],
    )
    def test_changed_code_or_tags_are_run_again(self, root: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str):
        ran = []

        async def execute(notebook: nbformat.NotebookNode, **kwargs: object) -> None:
            ran.append(notebook)

        monkeypatch.setattr(build_module, "execute", execute)
        edit(root, old, new)
        assert any("outputs of other code" in sentence for sentence in stale(root / "notebooks/src/05_tiny.py"))
        assert main([], root=root) == 0
        assert len(ran) == 1


class TestCheck:
    def test_it_changes_nothing_and_says_what_is_old(self, root: Path, capsys):
        edit(root, "2 + 2", "2 + 3")
        before = files(root)
        assert main(["--check"], root=root) == 1
        out = capsys.readouterr().out
        assert "notebooks/05_tiny.ipynb differs from its source" in out
        assert "notebooks/solutions/05_tiny.ipynb shows the outputs of other code" in out
        assert files(root) == before

    @pytest.mark.parametrize(
        "damage",
        [
            lambda text: text.replace('"execution_count": 1', '"execution_count": null'),
            lambda text: text.replace("import os", "import sys"),
            lambda text: text[: len(text) // 2],
            lambda text: text.replace('"builder": 1', '"builder": 0'),
        ],
        ids=["not executed", "code edited by hand", "half a file", "another builder"],
    )
    def test_a_solved_copy_that_was_tampered_with_is_not_fresh(self, root: Path, damage):
        path = root / "notebooks" / "solutions" / "05_tiny.ipynb"
        damaged = damage(path.read_text())
        assert damaged != path.read_text()
        path.write_text(damaged)
        assert main(["--check"], root=root) == 1

    def test_a_learners_copy_with_work_in_it_is_not_fresh(self, root: Path):
        path = root / "notebooks" / "05_tiny.ipynb"
        path.write_text(path.read_text().replace("Your turn: give", "My turn: give"))
        assert main(["--check"], root=root) == 1

    def test_a_missing_notebook_and_a_stray_one_are_named(self, root: Path, capsys):
        (root / "notebooks" / "05_tiny.ipynb").rename(root / "notebooks" / "04_gone.ipynb")
        assert main(["--check"], root=root) == 1
        out = capsys.readouterr().out
        assert "notebooks/05_tiny.ipynb has not been built" in out
        assert "04_gone.ipynb has no source" in out

    def test_no_lesson_at_all_is_a_failure(self, tmp_path: Path, capsys):
        assert main(["--check"], root=tmp_path) == 1
        assert main([], root=tmp_path) == 1
        assert "there is no lesson in" in capsys.readouterr().err

    def test_an_unknown_lesson_is_answered_with_those_there_are(self, root: Path, capsys):
        assert main(["07"], root=root) == 1
        assert "there is no lesson '07'; there are 05_tiny" in capsys.readouterr().err
        assert main(["05", "--check"], root=root) == 0

    def test_jobs_is_a_whole_number(self, root: Path, capsys):
        with pytest.raises(SystemExit):
            main(["--jobs", "0"], root=root)
        assert "whole number of at least 1" in capsys.readouterr().err


def line_of(root: Path, text: str) -> int:
    lines = (root / "notebooks" / "src" / "05_tiny.py").read_text().splitlines()
    return next(number for number, line in enumerate(lines, start=1) if text in line)


class TestFailure:
    def test_a_failing_cell_is_named_and_the_old_notebooks_stay(self, root: Path, capsys):
        edit(root, "### END SOLUTION\nprint(answer)", "### END SOLUTION\nprint(answer)\n1 / 0")
        edit(root, ' tags=["raises-exception"]', "")
        before = files(root)
        assert main([], root=root) == 1
        line = line_of(root, "1 / 0")
        assert f"05_tiny: cell 4 of 5 fails (05_tiny.py:{line}): ZeroDivisionError" in capsys.readouterr().err
        assert files(root) == before

    def test_a_syntax_error_is_named_by_its_line(self, root: Path, capsys):
        edit(root, "print(2 + 2,", "print(2 + + * 2,")
        assert main([], root=root) == 1
        assert f"(05_tiny.py:{line_of(root, '2 + + * 2')}): SyntaxError" in capsys.readouterr().err

    def test_a_cell_that_never_ends_and_one_that_ends_the_kernel(self, tmp_path: Path):
        slow = write_lesson(tmp_path, TINY.replace("2 + 2", '__import__("time").sleep(60)'))
        text = TINY.replace("05 ·", "06 ·").replace("2 + 2", "os._exit(3)")
        dead = write_lesson(tmp_path, text, "06_dead")
        first, second = asyncio.run(build([slow, dead], jobs=2, cell_timeout_s=2))
        assert "05_tiny: cell 2 of 5" in first
        assert "took longer than 2 s" in first
        assert "06_dead: cell 2 of 5" in second
        assert "the kernel died" in second
        assert not [child for child in psutil.Process().children() if "ipykernel" in " ".join(child.cmdline())]
        assert not list(tmp_path.rglob("*.ipynb"))

    def test_a_kernel_that_does_not_start_is_told_with_what_it_wrote(
        self, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
    ):
        edit(root, "print(2 + 2,", "print(2 + 3,")
        before, broken = files(root), tmp_path / "broken"
        broken.mkdir()
        (broken / "ipykernel_launcher.py").write_text("import os; print('no room', flush=True); os._exit(1)")
        monkeypatch.setenv("PYTHONPATH", str(broken))
        assert main([], root=root) == 1
        said = capsys.readouterr().err
        assert re.search(r"05_tiny: the kernel did not start \(Kernel died.*\); it last wrote: no room", said)
        assert files(root) == before

    def test_one_broken_lesson_does_not_stop_the_others(self, root: Path, capsys):
        broken = TINY.replace("05 ·", "06 ·").replace("### END SOLUTION", "", 1)
        write_lesson(root, broken, "06_broken")
        assert main([], root=root) == 1
        out, err = capsys.readouterr()
        assert "unchanged: 05_tiny" in out
        assert "06_broken.py" in err
        assert "BEGIN SOLUTION" in err


class TestSockets:
    """A port that is free when it is chosen may be another's when the kernel takes it."""

    def test_a_kernel_listens_at_files(self, root: Path, capsys):
        look = 'import json, sys; print(json.load(open(sys.argv[sys.argv.index("-f") + 1]))["transport"])'
        edit(root, "print(2 + 2,", f"{look}\nprint(2 + 2,")
        assert main([], root=root) == 0, capsys.readouterr().err
        said = "".join(output.get("text", "") for output in read(root, solution=True).cells[1].outputs)
        assert said.startswith("ipc\n")

    def test_a_path_too_long_for_a_socket_takes_ports(self):
        long, short = AsyncKernelManager(), AsyncKernelManager()
        listen_at_files(long, Path("/tmp") / ("x" * 97))
        listen_at_files(short, Path("/tmp/k"))
        assert (long.transport, short.transport, short.ip) == ("tcp", "ipc", "/tmp/k")


def test_a_full_disk_is_told_and_leaves_the_old_notebook(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def refuse(*_: object) -> None:
        raise OSError("the disk is full")

    edit(root, "learn to double", "shall learn to double")
    before = files(root)
    monkeypatch.setattr(build_module.os, "replace", refuse)
    assert main([], root=root) == 1
    assert "05_tiny: its notebooks could not be made or written: the disk is full" in capsys.readouterr().err
    assert files(root) == before


def test_an_interrupted_build_leaves_no_kernel_and_no_half_notebook(tmp_path: Path):
    write_lesson(tmp_path, TINY.replace("2 + 2", f'open(r"{tmp_path}/started", "w"), __import__("time").sleep(60)'))
    code = (
        "import sys; from pathlib import Path; from course_lib.authoring.notebooks.cli import main; "
        "sys.exit(main([], root=Path(sys.argv[1])))"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stderr=subprocess.PIPE, text=True)
    try:
        watch = psutil.Process(process.pid)
        for _ in range(3000):
            if (tmp_path / "started").exists():
                break
            assert process.poll() is None
            psutil.wait_procs([watch], timeout=0.1)
        kernels = watch.children(recursive=True)
        assert kernels
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=200)
    finally:
        process.kill()
    _, alive = psutil.wait_procs(kernels, timeout=60)
    assert process.returncode == 130
    assert "interrupted" in err
    assert not alive
    assert not list(tmp_path.rglob("*.ipynb*"))
