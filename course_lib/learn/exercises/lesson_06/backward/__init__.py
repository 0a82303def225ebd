"""06.backward: one batch through a model cut over ranks and back, judged by gradients and by messages."""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Case, Exercise, Mistake
from course_lib.learn.exercises.lesson_06.backward import mistakes
from course_lib.learn.exercises.lesson_06.backward.trial import KINDS, right, trial
from course_lib.learn.judging.judge import by_trial
from course_lib.learn.judging.report import compare

__all__ = ["BACKWARD"]

BACKWARD = Exercise(
    name="06.backward",
    title="There and back through a cut model",
    judge=by_trial(
        (2, 4, 3, 5),
        tuple(Case(kind, (kind,), right(kind)) for kind in KINDS),
        trial,
        compare=compare,
        timeout_s=4.0,
    ),
    mistakes=(
        Mistake(
            "gradients-stay",
            "Only the last rank learns: no rank before it has a gradient. The activations crossed the cut as plain "
            "numbers, and `loss.backward()` stops where they came in. What does the other side of the cut need, to "
            "go on from there?",
            recognise=mistakes.nothing_before_the_end,
        ),
        Mistake(
            "waits-for-ever",
            "It hangs: a rank waits for a message that does not come. Count on both sides of a cut: one activation "
            "goes to the right, one gradient comes back. Most often the rank on the right never sends "
            "`entering.grad`, or a rank calls `recv` for its gradient before it has sent its activation.",
            recognise=mistakes.waits_for_ever,
        ),
        Mistake(
            "no-target-in-the-middle",
            "A rank asks for the loss and has no target: `target` is None on every rank but the last. With two ranks "
            "each is the first or the last. With more there are ranks in the middle, which pass an activation on and "
            "wait for its gradient. Ask for `is_last` before you ask for a loss.",
            recognise=mistakes.loss_without_a_target,
        ),
        Mistake(
            "no-leaf",
            "There is no gradient to send: `entering.grad` is None. What arrives in a message is a tensor like any "
            "other. Autograd keeps the gradient of a tensor you made only if you ask: "
            "`entering.requires_grad_()`, before the part sees it.",
            recognise=mistakes.sends_what_is_none,
        ),
        Mistake(
            "backward-twice",
            "`backward()` went through the same part twice. The first time uses up what the forward pass kept. On the "
            "last rank `loss.backward()` is all there is to do; on the others `leaving.backward(gradient)`, once.",
            recognise=mistakes.backward_again,
        ),
        Mistake(
            "sends-twice",
            "The gradients are right, and more was sent than needed. An activation crosses each cut once, its "
            "gradient once in the other direction, and nothing else has to travel.",
            recognise=mistakes.sends_more,
        ),
        Mistake(
            "forward-again",
            "The gradients are right, and a part went forward more often than there were batches. Keep what came out "
            "of the one forward pass: it is what goes on to the next rank, and where backward begins.",
            recognise=mistakes.forward_again,
        ),
        Mistake(
            "holds-the-graph",
            "The gradients are right, and after the step the graph still holds its activations, as `retain_graph=True` "
            "makes it, or a list of outputs. Memory grows with every batch; let backward free them.",
            recognise=mistakes.holds_graphs,
        ),
        Mistake(
            "activation-comes-back",
            "What comes back is the activation itself, `entering`; the rank before needs its *gradient*. After "
            "`backward()` that is in `entering.grad`.",
            mistakes.step(back=lambda entering, gradient: entering.detach()),
        ),
        Mistake(
            "same-gradient-for-all",
            "With two ranks this looks right; with more, the ranks in the middle hand on the gradient that they "
            "received. That is the gradient of what *left* them. The rank before needs that of what *entered*.",
            mistakes.step(back=lambda entering, gradient: entering.grad if gradient is None else gradient),
        ),
        Mistake(
            "one-room-for-both",
            "With two ranks this looks right; with more, the ranks in the middle receive the gradient into `room`, "
            "where the activation still lies. Backward needs that activation for the weights' gradients, and finds "
            "the gradient in its place. Make new room: `torch.empty_like(leaving)`.",
            mistakes.step(one_room=True),
        ),
        Mistake(
            "ones-in-place-of-the-gradient",
            "A rank begins its backward pass with ones, as `leaving.sum().backward()` does, and does not use the "
            "gradient that it received. The ones say that every number of the activation adds one to the loss. How "
            "much each really adds is in the message.",
            mistakes.step(backward=lambda leaving, gradient: leaving.sum().backward()),
        ),
        Mistake(
            "averaged",
            "All gradients are too small by the number of ranks. That average belongs to data parallelism, where "
            "every rank has a batch of its own. Here all ranks work on one batch and there is one loss: nothing is "
            "to be divided.",
            recognise=mistakes.is_averaged,
        ),
        Mistake(
            "loss-on-every-rank",
            "A rank before the last returns something. Its activations are half-way through the model, and no target "
            "fits them. The loss exists on the last rank alone, the others return None.",
            recognise=mistakes.returns_something_early,
        ),
    ),
    hints=(
        "Draw two ranks and one line between them. What crosses it to the right, what to the left, and which rank does "
        "which backward? On the last rank, `loss.backward()`. What has it computed for the rank before?",
        "Whatever arrives is a new tensor: `entering.requires_grad_()` makes it a leaf, so that backward leaves the "
        "gradient in `entering.grad`. That is sent back; on the other side, `leaving.backward(gradient)` goes on.",
        "Not first: `exchange([recv(room, me.rank - 1)])`, then `entering = room.requires_grad_()`. Not last: send "
        "`leaving.detach()` to `me.rank + 1`, `recv` into `gradient = torch.empty_like(leaving)` from there, "
        "`leaving.backward(gradient)`. Not first: send `entering.grad` to `me.rank - 1`.",
    ),
    forbidden=(
        "course_lib.parallel.model.ModelParallel",
        "course_lib.parallel.model.Passing",
        "course_lib.parallel.model.SendToNext",
        "course_lib.parallel.model.RecvFromPrevious",
        "torch.distributed.pipelining.PipelineStage",
        "torch.distributed.pipelining.ScheduleGPipe",
    ),
    passed="Gradients on 2, 3, 4 and 5 ranks are those of the uncut model. One message crossed each cut in each "
    "direction.",
)
