"""Step ``lessons``: the solution of every lesson, as a script in a process of its own."""

from __future__ import annotations

import sys

from course_lib.bench.gpu.child import run_child
from course_lib.bench.gpu.stand_ins import STAND_INS, missing
from course_lib.bench.gpu.task import FAILED, Task
from course_lib.notebooks.info import source_files
from course_lib.paths import project_root

__all__ = ["run"]

_MOST_OF_THE_REST = 3.0  # a lesson may take so many times an even share of the time that is left
_LAST_LINES = 25


def run(task: Task) -> None:
    """A part and a time for each lesson."""
    lacking = [name for name in missing() if name in STAND_INS]
    if lacking:
        task.notes["stand_ins"] = lacking
        print(f"with stand-ins for {', '.join(lacking)}: what a browser would show is not tried", flush=True)
    lessons = source_files(project_root())
    if not lessons:
        task.tell("lessons", FAILED, f"{project_root() / 'notebooks' / 'src'} holds no lesson")
    for index, lesson in enumerate(lessons):
        limit_s = min(task.left_s, _MOST_OF_THE_REST * task.left_s / (len(lessons) - index))
        command = [sys.executable, "-m", "course_lib.bench.gpu.lesson_script", str(lesson)]
        ended = run_child(command, limit_s=limit_s, folder=project_root() / "notebooks")
        if ended.code == 0:
            task.table.add(f"lesson {lesson.stem}", [ended.time_s], "s")
        last = "\n".join(ended.output.splitlines()[-_LAST_LINES:])
        how = (
            f"not over after {limit_s:.0f} s" if ended.code is None else f"ended with exit code {ended.code}"
        )
        task.judge(lesson.stem, ended.code == 0, "" if ended.code == 0 else f"{last}\n{how}")
