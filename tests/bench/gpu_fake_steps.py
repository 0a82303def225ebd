"""Steps of a few lines for the tests of ``course bench gpu``: each ends in another way."""

from __future__ import annotations

import os
import signal
import time

from course_lib.authoring.bench.gpu.task import NOT_RUN, PASSED


def well(task):
    task.table.add("an easy row", [1.0, 2.0, 3.0], "ms", target=2.5)
    task.tell("a part", PASSED)
    print("something to read", flush=True)


def short(task):
    task.table.add("a slow row", [2.0], "ms", target=1.0)
    task.table.add("a small share", [40.0], "%", target=50.0, at_least=True)


def not_here(task):
    task.has_gpus("a part for many", 99)


def part_fails(task):
    with task.part("the broken part"):
        raise RuntimeError("this is what broke")
    task.tell("the part behind it", PASSED)


def raises(task):
    task.tell("a part before", PASSED)
    raise RuntimeError("the step itself broke")


def crashes(task):
    task.table.add("a row before the crash", [1.0], "ms")
    print("last words", flush=True)
    os._exit(7)


def hangs(task):
    task.table.add("a row before the hang", [1.0], "ms")
    time.sleep(600)


def is_interrupted(task):
    task.table.add("a row before the interrupt", [1.0], "ms")
    os.kill(os.getppid(), signal.SIGINT)
    time.sleep(600)


def tells_its_task(task):
    task.tell(
        f"rounds={task.rounds} on_gpu={task.on_gpu} visible={os.environ['CUDA_VISIBLE_DEVICES']!r}",
        NOT_RUN,
        "told",
    )
