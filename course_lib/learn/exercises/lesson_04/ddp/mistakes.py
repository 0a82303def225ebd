"""04.ddp: the usual mistakes by name. Those of a step are told in every later step as well, where they can show."""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Mistake
from course_lib.learn.exercises.lesson_04.ddp import recognise as by
from course_lib.learn.exercises.lesson_04.ddp.trial import NOTHING_TO_TRAIN
from course_lib.learn.exercises.lesson_04.tries import alone
from course_lib.learn.judging.errors import error_says, hangs_in, raised_first_in
from course_lib.learn.judging.report import both, differing, is_not_waited_for, only_in, only_wrong, some_wrong

__all__ = ["OF_AWKWARD", "OF_BYTES", "OF_MEMORY", "OF_OVERLAP", "OF_VALUES"]

OF_VALUES = (
    Mistake(
        "other-parameters",
        "`parameters()` of your wrapper gives others than those of the module that was handed in. So an optimizer that "
        "asks you for them trains something else. Keep that module itself, by `self.module = module`.",
        recognise=by.other_parameters,
    ),
    Mistake(
        "begins-unlike",
        "The ranks do not begin with the same weights: each has drawn its own. Equal gradients keep apart what begins "
        "apart. Broadcast every parameter and buffer from rank 0 when the module is wrapped.",
        recognise=some_wrong("begin"),
        shows=lambda outcome: "begin" in differing(outcome),
    ),
    Mistake(
        "never-averages",
        "After `backward()` every rank has its own gradients, and no all-reduce was made. Is a hook registered on each "
        "parameter, and does it send?",
        recognise=by.gave_own(sent=False),
    ),
    Mistake(
        "mean-is-lost",
        "All-reduces were made, and every rank still has its own gradients. The optimizer reads `parameter.grad`, so "
        "that is where the mean belongs.",
        recognise=by.gave_own(sent=True),
    ),
    Mistake(
        "sum-not-mean",
        "You have the sum of the ranks' gradients. Each loss is a mean over its own rank's rows, so divide by "
        "`me.world_size`.",
        recognise=by.gave_sums,
    ),
    Mistake(
        "drops-keywords",
        "A module with an input that is given by name was not called with it. `forward(self, *args, **kwargs)` hands "
        "on both.",
        recognise=error_says("keyword argument", "scale"),
    ),
    Mistake(
        "prefixed-names",
        "Training is right, and the names of `state_dict()` are not the module's. The program that loads the file "
        "knows nothing of your wrapper: hand the call on to `self.module`.",
        recognise=only_wrong("names"),
    ),
    Mistake(
        "not-by-the-given",
        "The values are right. Not all sums go by the `all_reduce` that the constructor was given, so nobody can have "
        "this DDP send by another. Keep it, and call it instead of `dist.all_reduce`.",
        recognise=only_wrong("sums_by"),
    ),
)
_NOT_WAITED = Mistake(
    "not-waited-for",
    "An all-reduce was begun with `async_op=True`, and nobody waited for it. What is in the tensor then is known to "
    "nobody. Keep what the call returns, and call its `wait()`.",
    recognise=is_not_waited_for,
)
_BYTES = (
    Mistake(
        "one-call-a-gradient",
        "The values are right, and each gradient travels in a call of its own. Lay the gradients of a bucket in one "
        "flat tensor, and all-reduce that.",
        recognise=by.one_call_a_gradient,
    ),
    Mistake(
        "one-bucket",
        "The values are right, and everything travels in one message, whatever `bucket_bytes` is. Close a bucket with "
        "the gradient that brings it to `bucket_bytes`.",
        recognise=by.message_sizes(times=10**6),
    ),
    Mistake(
        "from-the-front",
        "Your buckets are filled from the first parameter on. Backward comes to the last layer first, so the first "
        "bucket to be complete has the last parameters: fill from `reversed(...)`.",
        recognise=by.message_sizes(from_the_front=True, is_sorted=True),
    ),
    Mistake(
        "counts-numbers",
        "A bucket is closed when it has `bucket_bytes` *numbers*. A float64 has 8 bytes: count `parameter.nbytes`.",
        recognise=by.message_sizes(times=8),
    ),
    Mistake(
        "mixes-dtypes",
        "All is right but a model of two dtypes. `torch.cat` of float32 and float64 is float64, so what was float32 "
        "travels in twice its bytes. Keep a bucket for each dtype.",
        recognise=both(only_wrong("messages", "views"), only_in("two dtypes")),
    ),
    Mistake(
        "sends-besides",
        "The values are right, and the steps make calls that nothing needs beside the all-reduces. A barrier makes all "
        "ranks wait for the slowest; weights that began alike need no second broadcast.",
        recognise=only_wrong("others"),
    ),
)
OF_BYTES = (*OF_VALUES, _NOT_WAITED, *_BYTES)
_MEMORY = (
    Mistake(
        "copies-back",
        "Values and messages are right, and the mean is copied out of the bucket into each gradient. Make the gradient "
        "a *view* of the bucket, `parameter.grad = part.view_as(parameter)`, and nothing has to be copied back.",
        recognise=both(some_wrong("views"), only_wrong("views", "stays", "peak", "early", "waits")),
    ),
    Mistake(
        "keeps-two",
        "Values and messages are right, and beside the model lie more than its gradients: a second tensor of "
        "their size stays in memory. Who still holds it?",
        recognise=only_wrong("stays", "peak", "growth"),
    ),
)
OF_MEMORY = (*OF_BYTES, *_MEMORY)
_OVERLAP = (
    Mistake(
        "waits-in-the-hook",
        "Your buckets leave in time, and the hook waits until each is back: backward stands still meanwhile. Begin "
        "with `async_op=True`, keep what comes back, and wait when backward has ended.",
        recognise=only_wrong("waits"),
    ),
    Mistake(
        "leaves-too-soon",
        "An all-reduce began before all gradients of its bucket had come. Count them as they come, and begin with the "
        "last one.",
        recognise=by.too_soon,
    ),
    Mistake(
        "leaves-late",
        "The values are right. Some bucket was complete, and its all-reduce had not begun: it could have been under "
        "way while backward computed the rest. Begin it in the hook of its own last gradient.",
        recognise=by.calls_late,
    ),
)
OF_OVERLAP = (*OF_MEMORY, *_OVERLAP)
_UNUSED, _ORDER = "layers that not every rank uses", "gradients in another order on odd ranks"
_QUIET, _TWO = "accumulation in `no_sync`", "two models at the same time"
_WAITS_FOR_UNUSED = Mistake(
    "waits-for-unused",
    "Plain models are right. Where a rank leaves a layer out, no hook is called for it, so its bucket is never "
    "complete. At the end of backward put zeros where nothing came, and start what is left.",
    recognise=lambda evidence: (
        both(hangs_in(_UNUSED), only_in(_UNUSED))(evidence)
        or both(is_not_waited_for, only_in(_UNUSED, _QUIET))(evidence)
        or both(only_in(_UNUSED), some_wrong("gradients"))(evidence)
    ),
)
_AWKWARD = (
    Mistake(
        "order-of-arrival",
        "Where gradients come in another order on some ranks, the sums of different layers are mixed. Calls have no "
        "names: every rank is to start its buckets in the order of the list, whichever is complete first.",
        recognise=both(by.some_wrong_in(_ORDER), only_in(_ORDER, _UNUSED, _QUIET)),
    ),
    Mistake(
        "sends-in-no-sync",
        "Inside `no_sync` all-reduces were made. There each rank adds up its own gradients, and the next backward "
        "outside sends the sums. One that ends inside another does not end that one.",
        recognise=both(some_wrong("quiet"), only_in(_QUIET)),
    ),
    Mistake(
        "loses-the-quiet-part",
        "After accumulation in `no_sync` some mean is wrong. What the quiet passes have added up is in `.grad`, also "
        "where the last pass did not use a layer. And after an error inside `no_sync` gradients are sent again "
        "(`try`, `finally`).",
        recognise=both(some_wrong("gradients"), only_in(_QUIET)),
    ),
    Mistake(
        "buffers-of-its-own",
        "All is right but the buffers: a forward pass is to see those of rank 0. Broadcast them before each one that "
        "is averaged, or each rank goes on with statistics of its own.",
        recognise=both(only_wrong("buffers"), only_in("buffers")),
    ),
    Mistake(
        "frozen-have-none",
        "Plain models are right. A frozen parameter has no gradient and takes no hook: leave out what does not "
        "require one.",
        recognise=raised_first_in("frozen layers"),
    ),
    Mistake(
        "nothing-to-train",
        "A module whose parameters are all frozen is neither wrapped nor refused in a sentence of yours: your code "
        "stumbles over an empty list.",
        recognise=only_in(NOTHING_TO_TRAIN),
    ),
    Mistake(
        "shared-between-objects",
        "One model is right, and two at the same time are not. What belongs to one object is kept in the class, in a "
        "global or in a default argument. Keep it in `self`.",
        recognise=only_in(_TWO),
    ),
    Mistake(
        "not-alone",
        "Right on three ranks, and not on one. An all-reduce of one rank comes back at once, and the same code is to "
        "serve there.",
        recognise=alone,
    ),
)
# What waits for a layer that nobody used has begun calls for which nobody waited: so it comes first.
OF_AWKWARD = (_WAITS_FOR_UNUSED, *OF_OVERLAP, *_AWKWARD)
