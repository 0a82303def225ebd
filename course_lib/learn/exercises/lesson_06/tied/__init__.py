"""06.tied: two copies of one matrix on two ranks, and what keeps them equal."""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Case, Exercise, Mistake
from course_lib.learn.exercises.lesson_06.tied import mistakes
from course_lib.learn.exercises.lesson_06.tied.trial import KINDS, compare, right, trial
from course_lib.learn.judging.judge import by_trial

__all__ = ["TIED"]

TIED = Exercise(
    name="06.tied",
    title="Two copies of one matrix",
    judge=by_trial(
        (2, 4, 3, 5),
        tuple(Case(kind, (kind,), right(kind)) for kind in KINDS),
        trial,
        compare=compare,
        timeout_s=4.0,
    ),
    mistakes=(
        Mistake(
            "touched-in-flight",
            "A message was begun, and its tensor used or changed before your code had waited for it. It goes on while "
            "your code does, so what was added, or what the other rank got, is chance. It is another number in each "
            "run, and now and then the right one. First the `wait()` of what `isend` and `irecv` give back, then the "
            "sum.",
            recognise=mistakes.touches_in_flight,
        ),
        Mistake(
            "both-send-first",
            "Both ranks `send` first and `recv` second, which is a deadlock: neither message is taken before the other "
            "rank has got rid of its own. Put both halves in one list: `exchange([send(...), recv(...)])`.",
            recognise=mistakes.both_wait_in("send"),
        ),
        Mistake(
            "both-receive-first",
            "Both ranks `recv` first, which is a deadlock: each waits for a message that the other sends only "
            "afterwards. Put both halves in one list: `exchange([send(...), recv(...)])`.",
            recognise=mistakes.both_wait_in("receive"),
        ),
        Mistake(
            "one-comes-alone",
            "One of the two ranks waits, and the other has returned and left it there. A message has two ends: what "
            "one rank sends, the other receives. Here both ranks do both.",
            recognise=mistakes.one_waits_alone,
        ),
        Mistake(
            "asks-everybody",
            "With two ranks this works. With more it hangs: a collective needs every rank of its group, and the ranks "
            "in the middle hold no copy and do not call. Exchange with the one other rank.",
            recognise=mistakes.waits_for_the_middle,
        ),
        Mistake(
            "one-way",
            "One of the two ranks has the sum, the other still has its own gradient: the copies will part at the next "
            "step. Both need the sum.",
            mistakes.one_way,
        ),
        Mistake(
            "averages",
            "You take the mean. In the uncut model the matrix is used in two places, and its gradient is the *sum* of "
            "what both places say; nothing is divided.",
            recognise=mistakes.is_scaled(0.5),
        ),
        Mistake(
            "swaps",
            "The two gradients change places: each rank now has the other's. Add it to your own.",
            mistakes.with_theirs(mistakes.replace),
        ),
        Mistake(
            "wiped-out",
            "On one rank or more the other's gradient lies where the rank's own was. Received into `weight.grad`, or "
            "copied there, it wipes out what it was to be added to. Receive into new room, "
            "`torch.empty_like(weight.grad)`, and add that.",
            recognise=mistakes.holds_the_others,
        ),
        Mistake(
            "own-gradient",
            "Each copy still has the gradient of its own place alone: nothing was added to it. (To average the "
            "*weights* hides that: the optimizers' memories differ all the same.) What is to be equal on both is the "
            "sum of both gradients.",
            recognise=mistakes.keeps_its_own,
        ),
        Mistake(
            "adds-to-the-weight",
            "The other's gradient was added to the weight itself. Gradients meet in `weight.grad`; the weight is the "
            "optimizer's business.",
            mistakes.with_theirs(mistakes.add_to_weight),
        ),
        Mistake(
            "shorter-numbers",
            "The sums are right to a few digits, and fewer bytes travelled than a gradient of this type has: it went "
            "in a shorter type. Send it in the type that it is in, or the copies are not what the uncut matrix is.",
            recognise=mistakes.nearly_right_and_shorter,
        ),
        Mistake(
            "sends-more",
            "Both copies are right, and more was sent than needed: the gradient goes once each way.",
            recognise=mistakes.only_sends_more,
        ),
    ),
    hints=(
        "In the uncut model the matrix is one tensor, used twice. What does autograd do with two gradients for it?",
        "Each rank sends its `weight.grad` to the other and receives the other's, both in one list; then both hold the "
        "sum.",
        "`theirs = torch.empty_like(weight.grad)`, `exchange([send(weight.grad, other), recv(theirs, other)])`, "
        "`weight.grad += theirs`.",
    ),
    forbidden=(
        "course_lib.parallel.model.TiedParameters",
        "course_lib.parallel.model.TiedParameters.sum_gradients",
        "course_lib.parallel.model.ModelParallel.sum_tied_gradients",
    ),
    passed="Both copies have the sum of both gradients, step after step, on 2, 3, 4 and 5 ranks. No more bytes "
    "went each way than one gradient has, and the ranks in between were not called.",
)
