"""The parts of ``course bench gpu`` that need no GPU to be tried: tests and lessons as processes, logs, names."""

from __future__ import annotations

import sys
from pathlib import Path

import psutil
import pytest
from gpu_tasks import outcomes
from waiting import HANG_LIMIT_S, all_ended

from course_lib.authoring.bench.gpu import lessons, tests
from course_lib.authoring.bench.gpu.child import run_child
from course_lib.authoring.bench.gpu.lesson_script import run_cell
from course_lib.authoring.bench.gpu.measurements import backends
from course_lib.authoring.bench.gpu.measurements.nccl_log import asked_of_nccl, seen_by_meter
from course_lib.authoring.bench.gpu.measurements.peak import machine_of
from course_lib.meter.communication.call import Call

ROOT = Path(__file__).resolve().parent.parent.parent


# -- processes with a limit -------------------------------------------------------------------------------------------

PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(900)"])
print(child.pid, flush=True)
time.sleep({time_s})
"""


@pytest.mark.long
@pytest.mark.parametrize(("time_s", "code"), [(0, 0), (900, None)])
def test_a_command_is_ended_with_all_that_it_started(tmp_path, time_s, code):
    program = [sys.executable, "-c", PARENT.format(time_s=time_s)]
    ended = run_child(program, limit_s=10.0 if code is None else HANG_LIMIT_S, folder=tmp_path)
    assert ended.code == code
    assert all_ended([int(ended.output)]), "what it started runs on"


# -- tests, each file in a process of its own ------------------------------------------------------------------------

SOME_TESTS = {
    "test_some.py": """
import pytest
pytestmark = pytest.mark.gpu
def test_right(): pass
def test_wrong(): assert 1 == 2, "one is not two"
@pytest.mark.skip(reason="no card")
def test_skipped(): pass
""",
    "test_crash.py": "import os, pytest\n@pytest.mark.gpu\ndef test_crash(): os._exit(9)\n",
    "test_no_module.py": "import pytest, no_such_module\n@pytest.mark.gpu\ndef test_it(): pass\n",
    "test_other.py": "import no_such_module\ndef test_unmarked(): pass\n",
}


def test_every_marked_test_is_told_of(task, tmp_path):
    for name, text in SOME_TESTS.items():
        (tmp_path / name).write_text(text)
    tests.run_marked(task, "gpu", tmp_path)
    found = outcomes(task)
    assert found.pop("test_some.py::test_right") == "passed"
    assert found.pop("test_some.py::test_wrong") == "failed"
    assert found.pop("test_some.py::test_skipped") == "not run"
    assert found.pop("test_crash.py::test_crash") == "failed"
    assert [outcome for name, outcome in found.items() if name.endswith("test_crash.py")] == ["failed"]
    assert [outcome for name, outcome in found.items() if name.endswith("test_no_module.py")] == ["failed"]
    assert not any("test_other" in name for name in found), "a file without the mark is not imported"
    whys = " ".join(part["why"] for part in task.parts)
    assert all(word in whys for word in ("one is not two", "no card", "it began and never ended", "no_such_module"))


def test_a_mark_that_nobody_bears_is_no_success(task, tmp_path):
    tests.run_marked(task, "gpu", tmp_path)
    assert outcomes(task) == {"pytest -m gpu": "failed"}


@pytest.mark.long
def test_a_file_that_hangs_is_ended(task, tmp_path):
    hang = "import time, pytest\n@pytest.mark.gpu\ndef test_hang(): time.sleep(900)\n"
    (tmp_path / "test_hang.py").write_text(hang)
    task.end_s = 15.0
    tests.run_marked(task, "gpu", tmp_path)
    assert "failed" in outcomes(task).values()
    assert "not over after" in task.parts[-1]["why"]


def test_the_tests_of_the_course_are_found():
    files = tests.files_with("gpu", ROOT / "tests")
    assert ROOT / "tests" / "test_gpu.py" in files
    assert ROOT / "tests" / "test_gpu.py" in tests.files_with("multigpu", ROOT / "tests")
    assert ROOT / "tests" / "test_plot.py" not in files
    assert Path(__file__) not in files, "its marks stand in texts"


# -- lessons as scripts ----------------------------------------------------------------------------------------------

LESSON = """# %% [markdown]
# # 01 · A try
#
# A promise.
#
# **10 minutes · difficulty 1 of 5 · needs: cpu**

# %%
def half(x):
    ### BEGIN SOLUTION
    return x / 2
    ### END SOLUTION


# %%
print("half of 8:", half(8))
half(4)

# %% tags=["raises-exception"]
half("a word")

# %%
{last}
"""


@pytest.mark.parametrize(("last", "outcome"), [("half(2)", "passed"), ("half(None)", "failed")])
def test_a_lesson_runs_its_solution_and_tells_the_line_that_fails(task, tmp_path, monkeypatch, last, outcome):
    source = tmp_path / "notebooks" / "src" / "01_a_try.py"
    source.parent.mkdir(parents=True)
    source.write_text(LESSON.format(last=last))
    monkeypatch.setattr(lessons, "project_root", lambda: tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    lessons.run(task)
    assert outcomes(task) == {"01_a_try": outcome}
    assert [row.what for row in task.table.rows] == (["lesson 01_a_try"] if outcome == "passed" else [])
    if outcome == "failed":
        why = task.parts[0]["why"]
        assert "FAILED at 01_a_try.py:23: TypeError: unsupported operand" in why
        assert "half of 8: 4.0" in why
        assert "return x / 2" in why, "a traceback shows the lines of the cells"


def test_a_part_of_a_lesson_is_a_lesson_to_run(task, tmp_path, monkeypatch):
    source = tmp_path / "notebooks" / "src" / "04b_a_part.py"
    source.parent.mkdir(parents=True)
    source.write_text(LESSON.format(last="half(2)").replace("01 · A try", "04b · A try: one part"))
    monkeypatch.setattr(lessons, "project_root", lambda: tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    lessons.run(task)
    assert outcomes(task) == {"04b_a_part": "passed"}


def test_no_lesson_is_no_success(task, tmp_path, monkeypatch):
    monkeypatch.setattr(lessons, "project_root", lambda: tmp_path)
    lessons.run(task)
    assert outcomes(task) == {"lessons": "failed"}


def test_a_cell_shows_its_last_value_and_draws_its_pictures(capsys):
    class Picture:
        drawn = 0

        def _repr_png_(self):
            Picture.drawn += 1

        def __repr__(self):
            return "a picture"

    run_cell("x = 3\npicture", "here:1", {"picture": Picture()})
    assert (capsys.readouterr().out, Picture.drawn) == ("a picture\n", 1)
    run_cell("None", "here:1", {})
    assert capsys.readouterr().out == ""


# -- NCCL's log, cards, back ends ------------------------------------------------------------------------------------

HEAD = "host:77:78 [1] NCCL INFO "
TAIL = "op 0 root 0 comm 0x55fc [nranks=2] stream 0x55fd"
LOG = f"""host:77:78 [1] NCCL INFO NCCL version 2.28
{HEAD}AllReduce: opCount 1a sendbuff 0x7f recvbuff 0x80 count 1000 datatype 7 {TAIL}
{HEAD}AllReduce: opCount 1b sendbuff 0x7f recvbuff 0x80 count 1 datatype 7 {TAIL}
{HEAD}AllGather: opCount d sendbuff 0x7f recvbuff 0x80 count 600 datatype 8 {TAIL}
{HEAD}ReduceScatter: opCount e sendbuff 0x7f recvbuff 0x80 count 500 datatype 9 {TAIL}
{HEAD}Send: opCount 12 sendbuff 0x7f505e93c000 recvbuff (nil) count 700 datatype 7 {TAIL}
"""


def test_nccls_log_is_read_in_bytes_of_the_input():
    found = asked_of_nccl(LOG.splitlines(), least_bytes=2000)
    assert found == {
        ("all_reduce", 4000): 1,
        ("all_gather", 4800): 1,
        ("reduce_scatter", 2000): 1,
        ("send", 2800): 1,
    }


def test_the_meters_calls_are_counted_alike():
    call = Call(0, 1, "all_reduce", (0, 1), 4000, {1: 4000}, 2, 0.0, None, None, None)
    small = Call(0, 2, "all_reduce", (0, 1), 4, {1: 4}, 2, 0.0, None, None, None)
    assert seen_by_meter([call, call, small], least_bytes=2000) == {("all_reduce", 4000): 2}


@pytest.mark.parametrize(
    ("card", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "8x H100"),
        ("NVIDIA H200", "8x H200"),
        ("NVIDIA A100-SXM4-80GB", "8x A100"),
        ("NVIDIA GeForce RTX 4090", "4x RTX 4090"),
        ("NVIDIA H100 80GB HBM3 MIG 3g.40gb", None),
        ("NVIDIA A100-SXM4-80GB MIG 1g.10gb", None),
        ("NVIDIA H100 PCIe", None),
        ("NVIDIA H100 NVL", None),
        ("NVIDIA H200 NVL", None),
        ("NVIDIA GH200 480GB", None),
        ("NVIDIA GeForce RTX 4090 D", None),
        ("Tesla T4", "2x T4"),
        ("NVIDIA T4G", None),
        ("NVIDIA T400 4GB", None),
    ],
)
def test_a_cards_peak_is_that_of_its_own_data_sheet(card, name):
    assert machine_of(card) == name


def test_back_ends_by_what_is_there(task, monkeypatch):
    assert backends.backends_for(task, 2) == ["gloo"]
    task.on_gpu, task.num_gpus = True, 2
    assert backends.backends_for(task, 2) == ["nccl"]
    task.num_gpus = 1
    monkeypatch.setattr(backends, "_why_not_shared", lambda num_ranks: "")
    assert backends.backends_for(task, 2) == ["gloo", "nccl-shared"]
    assert not task.parts
    monkeypatch.setattr(backends, "_why_not_shared", lambda num_ranks: "it said no")
    assert backends.backends_for(task, 2) == ["gloo"]
    assert task.parts[0]["outcome"] == "not run"
    assert task.parts[0]["why"] == "it said no"


def test_a_process_is_held_before_its_children_are_looked_for(monkeypatch):
    """Else it may start another one, which is on no list, between the look and its end."""
    done = []
    look, hold = psutil.Process.children, psutil.Process.suspend

    def children(self, *args, **options):
        done.append("look")
        return look(self, *args, **options)

    def suspend(self):
        done.append("hold")
        hold(self)

    monkeypatch.setattr(psutil.Process, "children", children)
    monkeypatch.setattr(psutil.Process, "suspend", suspend)
    ended = run_child([sys.executable, "-c", "import time; time.sleep(900)"], limit_s=0.5, folder=ROOT)
    assert ended.code is None
    assert done[:2] == ["hold", "look"]
