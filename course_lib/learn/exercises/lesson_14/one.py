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
        "Two things have to be right: the training (model, optimizer, this rank's rows), and the mesh. Begin with the "
        "training on any mesh; the message that ends it says which axis to take.",
        "First cut the whole model apart, and keep this rank's piece. Then make the optimizer of what is left on this "
        "rank. A step clears gradients, runs forward and backward of your part, updates, and gives all ranks the "
        "batch's mean loss. For memory take an axis that cuts states.",
        "With stages: `pipeline(me, {me.rank: layers}, one_f_one_b(4, 8), next_token_loss, lambda *_: room)`, where "
        "`layers` is an `nn.Sequential` of this rank's pieces and `room` is as large as what enters it. The last rank "
        "gets the loss, the others None. `dist.gather_object` brings the pieces' `state_dict()` to rank 0, under the "
        "plain model's names.",
    ),
    forbidden=(
        "course_lib.capstone.running.on_mesh.assemble_on",
        "course_lib.capstone.attempts.references.reference",
    ),
    passed="The weights are those of one device, within the memory and within the budget.",
)
