"""A class at once: what it takes, what goes wrong, by whom and where; and nothing is left of it, whatever happens."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import psutil
import pytest
from class_cases import MIB, notebook
from waiting import HANG_LIMIT_S, wait_until

from course_lib.classroom.trial import server, watch
from course_lib.classroom.trial.resource_use import taken_from
from course_lib.classroom.trial.trial import CellFailure, ClassTrial, _Work, run_trial
from course_lib.classroom.trial.trial_record import findings_of, keep, record_of
from course_lib.classroom.trial.trial_user import TrialUser, new_token

ROOT = Path(__file__).resolve().parents[2]
WORKS = """
import os, pathlib, subprocess, sys, time
here = pathlib.Path("written")
here.write_bytes(os.urandom(3_000_000))
block = bytearray(b"x") * 60_000_000
pathlib.Path({folder!r}, os.environ["COURSE_CLASS_SEAT"].split(":")[1]).write_text(
    "|".join([os.environ["HOME"], os.environ["COURSE_HOME"], os.environ["TMPDIR"], os.getcwd()]))
"""
# What a kernel leaves behind: not its child, in a session of its own.
LEAVES = """
code = "import subprocess, sys; print(subprocess.Popen(['sleep', '300'], start_new_session=True, " \
    "stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).pid)"
pid = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
pathlib.Path({folder!r}, "pids").open("a").write(pid)
"""
BLOCKED = "print('blocked: needs 2 GPUs')"
FAILS = """
import os
if ":1:" in os.environ["COURSE_CLASS_SEAT"]:
    raise ValueError("planted")
os._exit(3)
"""


class Told(watch.ResourceWatch):
    """Looks at the processes that are there, and is told the CPU seconds; looks at everybody when somebody is done."""

    CPU_S: ClassVar = {  # by learner and lesson: after each cell, and when all are done
        (1, "00"): (0.5, 1.0, 3.0, 4.0), (2, "00"): (1.0, 2.0, 8.0, 8.0),
        (1, "02"): (0.25, 0.5), (2, "02"): (0.25, 0.5),
    }  # fmt: skip

    def __init__(self, token: str) -> None:
        super().__init__(token)
        self.asked: Counter[tuple[int, str]] = Counter()

    def look_at(self, number: int, lesson: str, *, with_memory: bool = True) -> watch.ProcessSample:
        if with_memory:
            self._look_round()
        self.asked[number, lesson] += 1
        cpu_s = self.CPU_S.get((number, lesson), (0.0,) * 9)[self.asked[number, lesson] - 1]
        return replace(super().look_at(number, lesson, with_memory=with_memory), cpu_s=cpu_s)


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.fixture(scope="module")
def tried(tmp_path_factory):
    """Two learners: the first notebook works, and leaves something; in the second each meets an ill of their own."""
    folder = tmp_path_factory.mktemp("class")
    cells = [WORKS.format(folder=str(folder)), LEAVES.format(folder=str(folder)), BLOCKED]
    notebooks = {
        "00": notebook(folder / "00_works.ipynb", *cells),
        "01": notebook(folder / "01_fails.ipynb", "1 + 1", FAILS, "never"),
        "02": notebook(folder / "02_idle.ipynb", "1 + 1"),
    }
    # A short name of its own: sockets lie below it, and other tests' classes lie in the usual place.
    with tempfile.TemporaryDirectory(prefix="c") as theirs, pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", theirs)
        patch.setattr(watch, "_END_LIMIT_S", 0.5)
        told: list[str] = []
        trial = run_trial(2, notebooks, worth_a_look_s=0.0, watch_of=Told, tell=told.append)
        left = [path.name for path in Path(theirs).iterdir()]
    return SimpleNamespace(trial=trial, folder=folder, told=told, left=left)


def test_each_learner_has_a_place_of_their_own(tried):
    one, two = ((tried.folder / name).read_text().split("|") for name in "12")
    assert not set(one) & set(two)
    assert not any(Path(place).exists() for place in one + two)


def test_what_they_took(tried):
    row = record_of(tried.trial, "a command", "solved")["lessons"]["00"]
    assert row["learners"] == 2
    assert row["peak_bytes"] >= row["rest_bytes"] > 50 * MIB  # a block that is held is among them
    assert row["processes"] >= 2  # the kernel, and what it began
    assert row["threads"] > row["processes"]
    assert row["descriptors"] >= row["process_descriptors"] > 10
    assert (row["longest_cell"], row["longest_cell_cpu_s"]) == (6, 6.0)  # of the one who took longest
    assert row["cpu_s"] == 6.0  # in the middle of 4 and 8
    assert tried.trial.together.memory_bytes > 50 * MIB
    assert tried.trial.disk_bytes_each > 3_000_000


def test_long_times_between_two_looks_are_told(tried):
    """Beside other work a trial of ten saw 0.8 GiB of a lesson that takes 1.2: peaks fell between its looks."""
    assert record_of(replace(tried.trial, longest_gap_s=7.26), "a command", "solved")["longest_gap_s"] == 7.3
    told = {gap_s: findings_of(replace(tried.trial, longest_gap_s=gap_s)) for gap_s in (1.0, 25.0)}
    assert [one for one in told[1.0] if one.name == "trial, memory"] == []
    (found,) = [one for one in told[25.0] if one.name == "trial, memory"]
    assert found.status == "warning"
    assert "25 s passed between two looks" in found.detail


def test_a_lesson_is_not_charged_for_the_one_before(tried):
    row = record_of(tried.trial, "a command", "solved")["lessons"]["02"]
    assert row["cpu_s"] == 0.5
    assert row["processes"] == 1  # not what the lesson before has left


def test_short_cells_are_counted_with_the_next_one():
    async def done(*_):
        pass

    asked = []

    def look_at(number, lesson, with_memory=True):
        asked.append(lesson)
        return watch.ProcessSample(cpu_s=0.5)

    kernel = SimpleNamespace(start=done, run=done, cells=lambda: [(number, {}) for number in range(3)])
    looks = SimpleNamespace(look_at=look_at, note=lambda *_: None)
    trial = ClassTrial(1, ("00",), 1, ())
    work = _Work(60.0, math.inf, lambda text: None, trial, [], {}, looks)
    asyncio.run(work._lesson(SimpleNamespace(number=1), "00", kernel))
    (lap,) = trial.laps
    assert (lap.longest_cell, lap.longest_cell_cpu_s, lap.cpu_s) == (0, 0.0, 0.5)
    assert asked == ["00"], "once, at the end"


def test_looking_takes_a_fifth_of_the_time_and_the_longest_gap_is_kept():
    class Rounds(watch.ResourceWatch):
        """Looks that take so long, and waits that are over at once, on a clock of its own."""

        def __init__(self, looks_s: list[float]) -> None:
            self.now_s, self.looks_s, self.waited_s = 100.0, looks_s, []
            super().__init__("nobody", clock=lambda: self.now_s)
            self._ended = SimpleNamespace(is_set=lambda: not self.looks_s, wait=self.wait)

        def _look_round(self) -> None:
            self.now_s += self.looks_s.pop(0)

        def wait(self, time_s: float) -> None:
            self.waited_s.append(time_s)
            self.now_s += time_s

    rounds = Rounds([0.125, 2.0, 0.0])
    rounds.run()
    assert rounds.waited_s == [1.0, pytest.approx(8.0), 1.0]
    assert rounds.longest_gap_s == pytest.approx(10.0)


def test_errors_by_learner_lesson_and_cell(tried):
    first, second = sorted(tried.trial.failures, key=lambda one: one.learner)
    assert first == CellFailure(1, "01", 4, 3, "ValueError: planted")
    assert (second.learner, second.lesson, second.cell) == (2, "01", 4)
    assert "the kernel died in this cell" in second.reason
    assert not tried.trial.has_fitted
    assert len([line for line in tried.told if "00 done in" in line]) == 2
    assert "learner 1: 01, cell 4: ValueError: planted" in tried.told


def test_what_was_left_is_ended_and_named(tried):
    pids = [int(pid) for pid in (tried.folder / "pids").read_text().split()]
    assert len(pids) == 2
    assert all(is_gone(pid) for pid in pids)
    assert sorted(tried.trial.left_over) == sorted(f"{pid} sleep 300" for pid in pids)
    assert tried.left == []


def test_the_trial_in_words(tried):
    text = "\n".join(f"{one.name} [{one.status}] {one.detail}" for one in findings_of(tried.trial))
    assert "trial [blocked] 2 at once, 00, 01, 02" in text
    assert "2 of 2 met an error" in text
    assert "trial, 01 [blocked] cell 4, 1 of 2: ValueError: planted" in text
    assert "trial, 00 [ok] 2 done in" in text
    assert "trial, blocked [warning] needs 2 GPUs" in text
    assert text.count("had to be ended") == 2


def test_a_record_is_kept_and_read_again(tried, tmp_path):
    record = record_of(tried.trial, "a command", "solved")
    keep(record, tmp_path / "kept.json")
    assert [path.name for path in tmp_path.iterdir()] == ["kept.json"]
    by = taken_from(record, ["00", "05a"], "a test")
    assert by.most("peak_bytes") == record["lessons"]["00"]["peak_bytes"]
    assert by.unmeasured == ("05a",)
    assert not by.trial.has_fitted
    with pytest.raises(ValueError, match="cannot be written"):
        keep(record, tmp_path / "none" / "kept.json")


def test_a_class_that_fits_in_words(tried):
    fitted = replace(tried.trial, failures=[], left_over=[])
    assert findings_of(fitted)[0].status == "ok"
    assert "no error, 2 fit" in findings_of(fitted)[0].detail


def test_many_errors_are_cut_and_counted(tried):
    many = [CellFailure(1, "01", cell, 1, f"E{cell}") for cell in range(40)]
    found = findings_of(replace(tried.trial, failures=many))
    assert any("28 more errors" in one.detail for one in found)
    assert any("its kernel did not start" in one.detail for one in found)


def test_a_kernel_that_does_not_start(tmp_path, monkeypatch):
    monkeypatch.setattr("course_lib.lessons.execute.sys", SimpleNamespace(executable="/bin/false"))
    trial = run_trial(1, {"00": notebook(tmp_path / "00_a.ipynb", "1")}, tell=lambda text: None)
    (failure,) = trial.failures
    assert failure.cell == 0
    assert "died" in failure.reason.lower()


def test_it_ends_before_memory_does(tmp_path, monkeypatch):
    begun = tmp_path / "pid"
    free = watch.available_memory_bytes
    monkeypatch.setattr(watch, "available_memory_bytes", lambda: 0 if begun.exists() else free())
    draft = tmp_path / "draft"
    cell = (
        f"import pathlib, os; pathlib.Path({str(draft)!r}).write_text(str(os.getpid()))\n"
        f"os.rename({str(draft)!r}, {str(begun)!r})\nwhile True: pass"
    )
    trial = run_trial(1, {"00": notebook(tmp_path / "00_a.ipynb", cell)}, tell=lambda text: None)
    assert trial.stopped == "memory ran short"
    assert not trial.failures
    assert findings_of(trial)[0].status == "blocked"
    assert "memory ran short" in findings_of(trial)[0].detail
    assert is_gone(int(begun.read_text()))


@pytest.mark.parametrize("by", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_an_interrupt_leaves_nothing(tmp_path, by):
    pids = tmp_path / "pids"
    cell = (
        "import os, pathlib, subprocess, time\n"
        "child = subprocess.Popen(['sleep', '300'], start_new_session=True)\n"
        f"pathlib.Path({str(tmp_path)!r}, 'draft').write_text(f'{{os.getpid()}} {{child.pid}} ' + os.environ['HOME'])\n"
        f"os.rename({str(tmp_path / 'draft')!r}, {str(pids)!r})\ntime.sleep(300)"
    )
    path = notebook(tmp_path / "00_a.ipynb", cell)
    code = (
        "import pathlib; from course_lib.classroom.trial import trial, watch; watch._END_LIMIT_S = 0.5\n"
        f"trial.run_trial(1, {{'00': pathlib.Path({str(path)!r})}})"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE, text=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    try:
        wait_until(lambda: pids.exists() or process.poll() is not None, "the cell has begun")
        assert pids.exists(), process.communicate(timeout=HANG_LIMIT_S)[1]
        kernel, child, home = pids.read_text().split()
        process.send_signal(by)
        _, errors = process.communicate(timeout=HANG_LIMIT_S)
    finally:
        process.kill()
        process.wait()
    assert "KeyboardInterrupt" in errors
    assert is_gone(int(kernel))
    assert is_gone(int(child))
    assert not Path(home).parent.parent.exists()


def test_processes_of_others_are_not_touched(tmp_path):
    seat = TrialUser(1, new_token(), tmp_path / "ours")
    with subprocess.Popen(["sleep", "300"], env={**os.environ, "COURSE_CLASS_SEAT": "another:1:00"}) as other:
        try:
            own = watch.ResourceWatch(seat.token)
            assert list(own.processes()) == []
            assert own.end_all() == []
            assert other.poll() is None
        finally:
            other.kill()


@pytest.mark.long
def test_what_a_jupyterlab_takes(tmp_path):
    seat = TrialUser(0, new_token(), tmp_path / "0")
    own = watch.ResourceWatch(seat.token)
    found = server.measured_server(seat, own)
    assert found is not None
    assert found.memory_bytes > 20 * MIB
    assert own.end_all() == []


def test_a_server_that_ends_at_once_is_not_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "sys", SimpleNamespace(executable="/bin/false"))
    seat = TrialUser(0, new_token(), tmp_path / "0")
    assert server.measured_server(seat, watch.ResourceWatch(seat.token)) is None
