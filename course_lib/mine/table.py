"""The table: which exercise gives which function of the learner's own library, and what stands in for it."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from course_lib.learn import exercises
from course_lib.learn.builds.build import Build
from course_lib.learn.builds.catalogue import build_of_step
from course_lib.learn.catalogue.exercise import Exercise

__all__ = ["ENTRIES", "LibraryEntry", "entry_of", "entry_of_exercise", "exercise_of", "step_words"]

_COURSES = "course_lib.mine.courses"


@dataclass(frozen=True)
class LibraryEntry:
    """A function or class of the learner's library, ``mine.NAME``, kept when the check of ``exercise`` passes.

    That of a build is kept again by each later step; ``exercise`` is the one from which it can be used. It stands in
    ``mine/MODULE.py``. The course's, of the same name in ``courses.py``, has the signature by which lessons call
    either; the learner's is called by position, so its parameters may have other names.
    """

    exercise: str
    name: str
    module: str
    says: str  # what it does, for lists

    @property
    def build(self) -> Build | None:
        """The build of whose steps ``exercise`` is one; None for an exercise that stands alone."""
        return build_of_step(self.exercise)

    @property
    def exercises(self) -> tuple[str, ...]:
        """The exercises whose check keeps an answer, the one that demands least first."""
        return (self.exercise,) if self.build is None else self.build.steps[self.build.number_of(self.exercise) - 1 :]

    @property
    def courses(self) -> Callable[..., Any]:
        """The course's function or class, which stands in for the learner's."""
        return getattr(importlib.import_module(_COURSES), self.name)

    @property
    def signature(self) -> inspect.Signature:
        return inspect.signature(self.courses)

    @property
    def file(self) -> str:
        """How sentences call the learner's file."""
        return f"mine/{self.module}.py"


ENTRIES = (
    LibraryEntry("00.share", "my_share", "basics", "the items of one rank, as a range"),
    LibraryEntry("02.ring", "ring_all_reduce", "collectives", "the sum over all ranks, around a ring, in place"),
    LibraryEntry("02.tree", "tree_broadcast", "collectives", "rank 0's tensor on every rank, in place"),
    LibraryEntry("02.sum_values", "all_reduce", "collectives", "the sum over the ranks of a group, in place"),
    LibraryEntry("03.dp_gradients", "MyDataParallel", "threads", "a module on several devices, in one process"),
    LibraryEntry("04.gradients", "average_gradients", "data", "every gradient becomes its mean over all ranks"),
    LibraryEntry("04.sampler", "indices_of", "data", "the indices that a rank reads in an epoch"),
    LibraryEntry("04.ddp_bytes", "MyDDP", "ddp", "a model whose gradients are their mean over all ranks"),
    LibraryEntry("05.clip", "clip", "sharded", "gradients of shards scaled by one factor, that of the whole norm"),
    LibraryEntry("05.zero_bytes", "MyShardedOptimizer", "zero", "an optimizer whose states are shared out over ranks"),
    LibraryEntry("05.fsdp_memory", "MyFullySharded", "fsdp", "a model of which each rank keeps its part alone"),
    LibraryEntry("07.1f1b", "order_of_stage", "schedules", "what a stage does under 1F1B, as texts"),
    LibraryEntry("07.pipe_split", "MyPipeline", "pipeline", "a runtime that executes any schedule of the course"),
    LibraryEntry(
        "07.search", "find_schedule", "schedules", "a schedule for stages of any times, under a limit of memory"
    ),
    LibraryEntry("08.split_memory", "MySplitTransformer", "tensor", "a transformer of which each rank holds its parts"),
    LibraryEntry("09.mesh_checkpoint", "MyMeshTrainer", "mesh", "trains a transformer on data, stages and slices"),
    LibraryEntry("10.zigzag", "positions_of", "context", "the positions of a rank, so that work is even"),
    LibraryEntry(
        "10.ring_messages", "MyRingAttention", "ring_attention", "attention to the keys of all ranks of a group"
    ),
    LibraryEntry("10.experts_balance", "MyExperts", "experts", "a layer whose experts all ranks of a group share out"),
    LibraryEntry("11.planner_runs", "MyPlanner", "planner", "bytes and seconds of layouts, and which ones fit"),
    LibraryEntry("12.job_fewer", "MyJob", "job", "a run of training that other ranks may continue"),
)


def entry_of(name: str) -> LibraryEntry:
    """The entry of a function's name, or of an exercise that keeps it. Raises ``ValueError`` with those there are."""
    for entry in ENTRIES:
        if name in (entry.name, *entry.exercises):
            return entry
    offers = ", ".join(f"{entry.name} ({entry.exercise})" for entry in ENTRIES)
    raise ValueError(f"There is no {name!r} in a library of your own; there is {offers}.")


def entry_of_exercise(exercise: str) -> LibraryEntry | None:
    """The entry of an exercise, also of a step of a build that comes before its answer is kept; None for others."""
    for entry in ENTRIES:
        if exercise == entry.exercise or (entry.build is not None and exercise in entry.build.steps):
            return entry
    return None


def step_words(entry: LibraryEntry, step: str) -> str:
    """How far a version of a build is that has passed this step: "step 2 of 5 of its build"; "" outside of builds."""
    build = entry.build
    return "" if build is None else f"step {build.number_of(step)} of {len(build.steps)} of its build"


@cache  # one object: what is known of its mistakes is kept by it
def exercise_of(entry: LibraryEntry, name: str = "") -> Exercise:
    """The entry's exercise, or the step of its build of this name. No stand-in of the course's is an answer to it, by
    whatever name it is called.
    """
    exercise = exercises.exercise(name or entry.exercise)
    return replace(exercise, forbidden=(*exercise.forbidden, f"{_COURSES}.{entry.name}"))
