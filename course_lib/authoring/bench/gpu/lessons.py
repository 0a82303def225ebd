"""Step ``lessons``: the solution of every lesson, as a script in a process of its own; some at a time where there are
cores for them.

A lesson that comes to no end within its share of the time is told as not run: how long one takes depends on the
machine, and nothing of it was seen to fail.
"""

from __future__ import annotations

import math
import os
import sys
import tempfile
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from course_lib.authoring.bench.gpu.child import Ended, run_child
from course_lib.authoring.bench.gpu.lesson_script import CELL
from course_lib.authoring.bench.gpu.stand_ins import STAND_INS, missing
from course_lib.authoring.bench.gpu.task import FAILED, NOT_RUN, PASSED, BenchTask
from course_lib.base.paths import project_root
from course_lib.devices import machine
from course_lib.lessons.info import source_files

__all__ = ["run"]

_MOST_OF_THE_REST = 3.0  # a lesson may take so many times an even share of the time that is left
_MOST_AT_ONCE = 3
_CORES_OF_A_LESSON = 4  # it starts up to four ranks
_LAST_LINES = 25


def run(task: BenchTask) -> None:
    """A part and a time for each lesson, in the order in which they end."""
    lacking = [name for name in missing() if name in STAND_INS]
    if lacking:
        task.notes["stand_ins"] = lacking
        print(f"with stand-ins for {', '.join(lacking)}: what a browser would show is not tried", flush=True)
    lessons = source_files(project_root())
    if not lessons:
        task.tell("lessons", FAILED, f"{project_root() / 'notebooks' / 'src'} holds no lesson")
    num_at_once = max(1, min(_MOST_AT_ONCE, machine().cores // _CORES_OF_A_LESSON))
    task.notes["lessons at a time"] = num_at_once
    pool = ThreadPoolExecutor(num_at_once)
    try:
        tries = {
            pool.submit(_try, task, lesson, math.ceil((len(lessons) - index) / num_at_once)): lesson.stem
            for index, lesson in enumerate(lessons)
        }
        for one in as_completed(tries):
            try:
                ended = one.result()
            except Exception:  # no room for another process, say
                task.tell(tries[one], FAILED, traceback.format_exc())
            else:
                _tell(task, tries[one], ended)
    finally:
        pool.shutdown(cancel_futures=True)


def _try(task: BenchTask, lesson: Path, num_rounds: int) -> Ended | None:
    """How a lesson ended, when so many rounds of lessons have to share the time that is left; None if there is none."""
    if task.clock() >= task.end_s:
        return None
    limit_s = min(task.left_s, _MOST_OF_THE_REST * task.left_s / num_rounds)
    command = [sys.executable, "-m", "course_lib.authoring.bench.gpu.lesson_script", str(lesson)]
    with tempfile.TemporaryDirectory(prefix="course-lesson-", ignore_cleanup_errors=True) as home:
        env = {**os.environ, "COURSE_HOME": home}  # one of its own, for another may run beside it
        return run_child(command, limit_s=limit_s, folder=project_root() / "notebooks", env=env)


def _tell(task: BenchTask, name: str, ended: Ended | None) -> None:
    if ended is None:
        task.tell(name, NOT_RUN, "out of time: the step's was over before this lesson began")
        return
    lines = ended.output.splitlines()
    if ended.code is None:
        task.tell(name, NOT_RUN, f"out of time: not over after {ended.time_s:.0f} s, {_where(lines)}")
    elif ended.code == 0:
        task.table.add(f"lesson {name}", [ended.time_s], "s")
        task.tell(name, PASSED)
    else:
        last = "\n".join(lines[-_LAST_LINES:])
        task.tell(name, FAILED, f"{last}\nended with exit code {ended.code}")


def _where(lines: Sequence[str]) -> str:
    """The cell that a lesson had come to, as it says at its beginning."""
    begun = [line for line in lines if line.startswith(CELL)]
    return f"in cell {begun[-1].removeprefix(CELL)}" if begun else "before its first cell"
