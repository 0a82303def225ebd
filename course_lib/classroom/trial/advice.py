"""What to change so that a class fits: the nearest that does, and how much more the rest would take."""

from __future__ import annotations

import math
from collections.abc import Iterator

from course_lib.classroom.trial.capacity import PATIENCE_S, Limit, first_met, limits, wait_s
from course_lib.classroom.trial.node import Node
from course_lib.classroom.trial.resource_use import Taken
from course_lib.meter.units import bytes_text

__all__ = ["advise"]


def advise(node: Node, taken: Taken, learners: int, open_lessons: int) -> list[str]:
    """Sentences, the nearest first; none where the class fits and nobody waits long."""
    return [*_about_room(node, taken, learners, open_lessons), *_about_waiting(node, taken, learners)]


def _about_room(node: Node, taken: Taken, learners: int, open_lessons: int) -> Iterator[str]:
    found = limits(node, taken, open_lessons)
    first = first_met(found)
    if first is None or first.learners is None or first.learners >= learners:
        return
    if first.learners:
        others = learners - first.learners
        yield f"Fewer learners: {first.learners} fit here. The other {others} need another machine, or another hour."
    if open_lessons > 1:
        for fewer in range(open_lessons - 1, 0, -1):
            then = first_met(limits(node, taken, fewer))
            if fewer == 1 or then is None or (then.learners or 0) >= learners:
                fits = "everybody fits" if then is None else f"{min(then.learners or 0, learners)} of {learners} fit"
                lessons = "one lesson" if fewer == 1 else f"{fewer} lessons"
                yield (
                    f"Fewer open lessons: with {lessons} open each, {fits}. A kernel keeps its memory and its ranks "
                    "until somebody shuts it down (Kernel, Shut Down Kernel). Culling idle kernels does that too."
                )
                break
    for limit in found:
        if limit.learners is not None and limit.learners < learners:
            yield _more_of(limit, learners)


def _more_of(limit: Limit, learners: int) -> str:
    """How much of one thing is lacking, and where it is changed."""
    lacking = limit.short_by(learners)
    if limit.unit == "threads a user":
        return f"each user: allow {math.ceil(limit.each):,} threads (nproc in /etc/security/limits.conf, or TasksMax)."
    if limit.unit == "files a process":
        return f"open files: allow {math.ceil(limit.each):,} a process (nofile in /etc/security/limits.conf)."
    amount = bytes_text(lacking) if limit.unit == "bytes" else f"{math.ceil(lacking):,} {limit.unit}"
    whole = bytes_text(learners * limit.each) if limit.unit == "bytes" else f"{math.ceil(learners * limit.each):,}"
    how = {
        "shared memory": " A container takes --shm-size; a machine, mount -o remount,size=... /dev/shm.",
        "processes": " The limit is raised where it is set: docker's --pids-limit, TasksMax of systemd, or sysctl.",
        "files in all": " sysctl fs.file-max raises it.",
        "disk": " --homes FOLDER looks at another disk.",
        "GPUs": " CUDA_VISIBLE_DEVICES= (empty) has the lessons run on the CPU.",
    }.get(limit.name, "")
    return f"{limit.name}: {learners} learners take {whole}, {amount} more than there is.{how}"


def _about_waiting(node: Node, taken: Taken, learners: int) -> Iterator[str]:
    longest_s = wait_s(node, taken, learners)
    if longest_s <= PATIENCE_S:
        return
    cores = math.ceil(node.here.cores * longest_s / PATIENCE_S)
    yield (
        f"cores: if all {learners} run the longest cell at the same moment it takes {longest_s:.0f} s. "
        f"With {cores} cores it takes {PATIENCE_S:.0f} s; or let the class run it in groups, while the others read."
    )
