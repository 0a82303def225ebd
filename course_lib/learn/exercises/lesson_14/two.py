"""14.two: level 2, two axes."""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Exercise
from course_lib.learn.exercises.lesson_14.attempted import ByAttempt
from course_lib.learn.exercises.lesson_14.mistakes import mistakes_of

__all__ = ["TWO"]

TWO = Exercise(
    name="14.two",
    title="Level 2: two axes, in an order",
    judge=ByAttempt(2),
    mistakes=mistakes_of("dp_replicate=4"),
    hints=(
        "The link between nodes is slow. Which axis sends so little that it may use it, and which one belongs within a "
        "node? And which of the two cuts states?",
        "The first axis of a mesh goes from node to node, the last one is within a node. For each mesh that fits by "
        "your formula, write down the bytes of a step on each axis, and the link that carries them. With stages, a few "
        "more micro-batches make the bubble smaller, and each of them costs two messages.",
        "Seconds on a link are its bytes divided by its bytes per second. Take the order in which the slow link has "
        "the fewest bytes, and of two such meshes the one with the smaller bubble. Then `OnMesh(me, mesh, "
        "task.model())`, the job's optimizer for its parameters, and its `data.deal` for the batch.",
    ),
    forbidden=(
        "course_lib.capstone.running.on_mesh.assemble_on",
        "course_lib.capstone.attempts.references.reference",
    ),
    passed="The weights are those of one device, within the memory and the budget, over a slow link.",
)
