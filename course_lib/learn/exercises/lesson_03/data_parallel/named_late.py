"""The named mistakes of the later steps of the build of lesson 03: threads, awkward models, and one piece."""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Mistake
from course_lib.learn.exercises.lesson_03.data_parallel import mistakes as seen
from course_lib.learn.exercises.lesson_03.data_parallel.named import OF_COPIES, UP_TO_COST
from course_lib.learn.judging.errors import error_says
from course_lib.learn.judging.report import only_wrong

__all__ = ["OF_FLAT", "UP_TO_AWKWARD", "UP_TO_THREADS"]

_SWAPPED = (
    Mistake(
        "swapped-in-one-module",
        "In the middle of its forward a replica's weights became those of another. `functional_call` puts tensors into "
        "the module for as long as the call lasts, and all threads called one module. Give each thread a module of its "
        "own: `copy.copy` costs no memory.",
        recognise=lambda evidence: any(True for _ in seen.wrong(evidence, "mixed")),
    ),
)
_OF_THREADS = (
    Mistake(
        "waits-for-a-time",
        "You waited for a time, and not for the threads: a replica may take longer. Here each sleep and each short "
        "limit of the caller's was over at once. `thread.join()` without a limit ends when the thread does.",
        recognise=lambda evidence: any(True for _ in seen.wrong(evidence, "limits")),
    ),
    Mistake(
        "one-after-another",
        "The replicas ran one after another: each waited for the others to be there, in vain. Start all threads in "
        "one loop, and wait for them in a second one.",
        recognise=seen.first_says("met", "one after another"),
    ),
    Mistake(
        "not-all-at-once",
        "Some replicas ran at the same time, and not all of them. Each device has a thread of its own.",
        recognise=seen.first_says("met", "at a time"),
    ),
    Mistake(
        "order-of-arrival",
        "The rows are right, and stand in the order in which the threads were done, which is chance. Give each thread "
        "a place: `outputs = [None] * n`, and in the thread `outputs[r] = ...`.",
        recognise=seen.is_permuted,
    ),
    Mistake(
        "not-waited-for",
        "The caller went on before all replicas were done. Join every thread first, also where one has failed.",
        recognise=lambda evidence: any(len(got.rows) == got.run.num_parts for _, got in seen.wrong(evidence, "done")),
    ),
    Mistake(
        "failure-lost",
        "A replica raised, and its error never reached the caller: an exception ends its own thread and nobody else's. "
        "Catch it in the thread, keep it, and raise after joining.",
        recognise=seen.loses_failures,
    ),
    Mistake(
        "another's-error",
        "Two replicas failed, and the caller is told of the later one. It was to be the first, in the order of the "
        "devices, whichever thread was done first.",
        recognise=seen.says("told", "failed as well"),
    ),
    Mistake(
        "nobody-named",
        "The error arrives, and nothing in it says which replica failed, and on which device. With eight devices one "
        "would like to know: raise a new one that tells both, `from` the old one.",
        recognise=lambda evidence: seen.says("told", "no number")(evidence) or seen.says("told", "no device")(evidence),
    ),
    Mistake(
        "another-number",
        "The error tells a number, and not that of the replica that failed. Replicas count from 0, as the devices do.",
        recognise=seen.says("told", "and it was replica"),
    ),
    Mistake(
        "error-lost",
        "The caller is told which replica failed, and the error itself is lost: its words, or the line that raised "
        "it. `raise NewError(...) from error` keeps the old one with its traceback.",
        recognise=lambda evidence: (
            seen.says("told", "not of what")(evidence) or seen.says("told", "traceback")(evidence)
        ),
    ),
    Mistake(
        "modes-lost",
        "A replica ran in other modes than its caller. Recording, inference mode and autocast belong to a thread, and "
        "a new thread has none of its maker's. Ask for them before, and enter them in the thread.",
        recognise=lambda evidence: (
            any(True for _ in seen.wrong(evidence, "modes")) or error_says("Unexpected floating ScalarType")(evidence)
        ),
        shows=seen.shows("modes"),
    ),
    Mistake(
        "modes-left",
        "When the call is over, its caller has other modes than before: recording is switched off, or on. Enter a mode "
        "by `with`, in the thread that needs it; `with` leaves it, also when something fails.",
        recognise=only_wrong("after"),
    ),
    Mistake(
        "thread-left",
        "When the output is there, a thread of yours still runs. A pool is closed by `with`, a thread ends by itself "
        "and is joined. Threads that stay keep their memory, and a process that cannot end.",
        recognise=only_wrong("threads", "held"),
    ),
)
_OF_AWKWARD = (
    Mistake(
        "deep-copied",
        "`copy.deepcopy` copies everything that a module has, and of some things there can be no copy: a lock, an open "
        "file. PyTorch's replicas share what is no tensor with the module. Copy modules with `copy.copy`.",
        recognise=error_says("cannot pickle", "deepcopy"),
    ),
    Mistake(
        "buffers-lost",
        "The module's buffers did not move: what replica 0 wrote into them is lost. Replica 0 has the module's own "
        "buffers, the others have copies.",
        recognise=seen.buffers_as_before,
        shows=seen.shows("buffers"),
    ),
    Mistake(
        "unused-gets-zeros",
        "A parameter that nobody used has a gradient of zeros; on one device it has none. An optimizer with weight "
        "decay tells them apart. (PyTorch's own gives zeros here.) A recorded copy of each tensor leaves None; a "
        "function of your own does after `ctx.set_materialize_grads(False)`.",
        recognise=seen.unused_got_zeros,
    ),
    Mistake(
        "things-copied",
        "A replica added to a list of the module's, and the module has not got it: the replica had a copy. All "
        "replicas share with the module what is no tensor.",
        recognise=only_wrong("noted"),
    ),
    Mistake(
        "scalars-became-one",
        "Each replica gave a scalar, and the caller got one number. Make each a row of one, so that the caller gets a "
        "vector with an entry for each replica.",
        recognise=seen.scalars_became_one,
    ),
    Mistake(
        "scalars-not-joined",
        "A replica may return a scalar, its loss for one. `torch.cat` refuses those: make each a row of one, so that "
        "the caller gets a vector with an entry for each replica.",
        recognise=error_says("zero-dimensional tensor"),
    ),
    Mistake(
        "needs-an-input",
        "A module may be called without any tensor, or with keywords alone. Then there is nothing to cut, and device 0 "
        "has one call to make.",
        recognise=seen.fails_in("a model without an input"),
    ),
    Mistake(
        "needs-rows",
        "A batch without rows is no error on one device: its output has no rows either. One call is enough.",
        recognise=seen.fails_in("no rows"),
    ),
    Mistake(
        "not-nested",
        "Inputs and outputs may be nested: dictionaries, lists, tuples, keywords, with things in them that are no "
        "tensors. Take them apart into leaves, treat each leaf, and put them together again.",
        recognise=lambda evidence: (
            not any(True for _ in seen.wrong(evidence, "changed"))
            and seen.fails_in(
                "nested inputs and outputs",
                "nested inputs, fewer rows than devices",
                also=("a model without an input", "no rows"),
            )(evidence)
        ),
    ),
)

OF_FLAT = (
    *OF_COPIES,
    Mistake(
        "one-by-one",
        "The results are right, and each tensor travels by itself. Join those of a kind to one flat tensor, send that, "
        "and give the replica views of it.",
        recognise=only_wrong("pieces"),
    ),
    Mistake(
        "flattened-for-each",
        "You made the flat tensor anew for each device, so as much memory was made twice. Make it once, and send it to "
        "all.",
        recognise=seen.copied_as_many(lambda n: 2 * (n - 1) - 0.2, fact="copied_flat"),
    ),
)

# What makes all else wrong comes first, then what an earlier step can show.
UP_TO_THREADS = (*_SWAPPED, *UP_TO_COST, *_OF_THREADS)
UP_TO_AWKWARD = (*UP_TO_THREADS, *_OF_AWKWARD)
