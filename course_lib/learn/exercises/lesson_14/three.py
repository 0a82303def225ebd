"""14.three: level 3, eight ranks."""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Exercise
from course_lib.learn.exercises.lesson_14.attempted import ByAttempt
from course_lib.learn.exercises.lesson_14.mistakes import mistakes_of

__all__ = ["THREE"]

THREE = Exercise(
    name="14.three",
    title="Level 3: eight ranks",
    judge=ByAttempt(3),
    mistakes=mistakes_of("dp_replicate=8"),
    hints=(
        "The planner's best mesh is not the best here. What does the planner assume to be shared evenly, though it is "
        "not?",
        "Whole blocks are shared among the stages, so pp should divide their number. The mesh says how many stages it "
        "has, `mesh.size('pp')`, and the job how many blocks, `third.job.config.num_layers`.",
        "Keep those of `fitting(third)` for which `third.job.config.num_layers % mesh.size('pp') == 0`. Which axes "
        "send little enough for the slow link? What stays within a node? Then the training is that of level 2.",
    ),
    forbidden=(
        "course_lib.capstone.running.on_mesh.assemble_on",
        "course_lib.capstone.attempts.references.reference",
    ),
    passed="On eight ranks the weights are those of one device, within the memory and the budget.",
)
