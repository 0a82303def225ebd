"""14.one: a training of level 1, assembled."""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Exercise
from course_lib.learn.exercises.lesson_14.attempted import ByAttempt
from course_lib.learn.exercises.lesson_14.mistakes import mistakes_of

__all__ = ["ONE"]

ONE = Exercise(
    name="14.one",
    title="Level 1: a training, assembled",
    judge=ByAttempt(1),
    mistakes=mistakes_of("dp_replicate=4"),
    hints=(
        "Two things to get right: the training (model, optimizer, this rank's rows), and the mesh. Begin with the "
        "training on any mesh; what ends it says which axis to take.",
        "The order is: `OnMesh` takes the whole model apart. Then the optimizer is made of what is left on this rank. "
        "Then the batch is dealt. A step clears gradients, calls the model's `step`, and updates. For memory take an "
        "axis that cuts states.",
        "`self.model = OnMesh(me, MESH, task.model())`, `self.optimizer = task.optimizer(self.model.parameters())`, "
        "`self.mine = self.model.data.deal(task.tokens, task.targets)`; in `step`: `self.model.step(*self.mine)`. For "
        "MESH, the quickest of the table that fits.",
    ),
    forbidden=(
        "course_lib.capstone.running.on_mesh.assemble_on",
        "course_lib.capstone.attempts.references.reference",
    ),
    passed="The weights of one device, within the memory, within the budget.",
)
