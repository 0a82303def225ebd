"""The named mistakes of the build of lesson 03, by the step that first can show them."""

from __future__ import annotations

import torch

from course_lib.learn.catalogue.exercise import Mistake
from course_lib.learn.exercises.lesson_03.data_parallel import mistakes as seen

__all__ = ["OF_AWKWARD", "OF_COST", "OF_GRADIENTS", "OF_THREADS", "OF_VALUES"]

OF_VALUES = (
    Mistake(
        "whole-batch-each",
        "Every device computed the whole batch. Cut it first: each gets its own part of the rows.",
        recognise=seen.rows_are(lambda rows, n: [rows] * n),
    ),
    Mistake(
        "split-by-count",
        "`split(n)` makes parts of n rows, as many as it takes. Asked for are n parts at most: `chunk(n)`.",
        recognise=seen.rows_are(lambda rows, n: [len(part) for part in torch.arange(rows).split(n)]),
    ),
    Mistake(
        "as-even-as-can-be",
        "Your parts are as even as can be. PyTorch's are those of `chunk`: all as large as the first, until nothing is "
        "left, so 10 rows on 4 devices are 3, 3, 3 and 1. Who weighs a loss by rows relies on it.",
        recognise=seen.rows_are(
            lambda rows, n: [len(part) for part in torch.arange(rows).tensor_split(n) if len(part)]
        ),
    ),
    Mistake(
        "empty-parts",
        "With fewer rows than devices, a device was called with no rows. A device without a part has no work: call the "
        "module once for each part that there is.",
        recognise=lambda evidence: any(0 in got.rows for _, got in seen.wrong(evidence, "rows")),
    ),
    Mistake(
        "drops-the-rest",
        "Rows are missing where they do not divide evenly by the devices. The last part is smaller than the others, "
        "and it is a part.",
        recognise=seen.rows_are(lambda rows, n: [rows // n] * n if rows >= n else []),
    ),
    Mistake(
        "not-joined",
        "The outputs come back as a list, a part for each device. Who called gave one batch, and asks for one output: "
        "join them along the rows.",
        recognise=seen.output_is(lambda got: isinstance(got, list | tuple)),
    ),
    Mistake(
        "one-part-alone",
        "What came back is the output of one device. The rows of the others are missing: join all outputs.",
        recognise=seen.is_first_part,
    ),
    Mistake(
        "stacked",
        "`stack` puts the outputs side by side along a new dim, and wants them of one size. Rows belong below rows: "
        "`torch.cat`.",
        recognise=lambda evidence: (
            seen.raised("stack expects each tensor")(evidence)
            or seen.output_is(lambda got: isinstance(got, torch.Tensor) and got.dim() == 3)(evidence)
        ),
    ),
)
OF_GRADIENTS = (
    Mistake(
        "new-parameters",
        "The replicas have parameters of their own, as `copy.deepcopy` and `nn.Parameter` make them. Those collect "
        "gradients, and the module's, which the optimizer holds, never see them. A replica's weight is the *result* of "
        "a copy that autograd records.",
        recognise=seen.has_new_parameters,
        shows=seen.shows("grads"),
    ),
    Mistake(
        "averaged",
        "The gradients are divided by the number of parts. That is for losses that each take the mean of their own "
        "part. Here the caller has one loss, of the whole output: the gradients of all parts add up.",
        recognise=seen.gradients_times(lambda n: 1 / n),
    ),
    Mistake(
        "cut-off",
        "Gradients of the replicas do not reach the module. `detach`, `.data` and `torch.no_grad` cut a copy off from "
        "what it was copied from. `clone()` and `to(device, copy=True)` alone are operations like any other.",
        recognise=seen.gradients_of_the_first_part,
    ),
    Mistake(
        "made-once",
        "The first step is right, and the later ones are not: the replicas still have the weights of an earlier call. "
        "The optimizer changes the module's alone, so every forward pass copies them anew.",
        recognise=lambda evidence: (
            seen.any_fact("weights", "held", "earlier", "output")(evidence)
            or seen.raised("backward through the graph a second time", "modified by an inplace operation")(evidence)
        ),
    ),
    Mistake(
        "parts-shared",
        "A part of the batch lies in the memory of the whole batch. In one memory that works; another device cannot "
        "reach it. Copy each part to its device: `part.to(device, copy=True)`; only device 0 has it already.",
        recognise=seen.says("memory", "shares the batch"),
    ),
    Mistake(
        "one-copy-for-all",
        "Two replicas compute with one copy. Each sits on a device of its own: copy once for each of them.",
        recognise=seen.says("memory", "with replica"),
    ),
    Mistake(
        "nothing-copied",
        "The values are right, and a replica other than the first computes with the module's own tensors. Another "
        "device cannot reach them. Give each replica a copy of every parameter and buffer.",
        recognise=seen.says("memory", "with the module"),
    ),
)
OF_COST = (
    Mistake(
        "keeps-replicas",
        "The results are right, and replicas are still there when the step is over: a model's memory more on each "
        "device, beside gradients and optimizer. Make them in `forward`, and keep them nowhere: not on `self`, not in "
        "a list of the class.",
        recognise=seen.any_fact("held"),
    ),
    Mistake(
        "copies-for-idle-devices",
        "A device without a part of the batch got the weights all the same. Count the parts first, and make as many "
        "replicas.",
        recognise=seen.idle_devices_alone,
    ),
    Mistake(
        "copies-twice",
        "The weights are copied more than once for each device. `copy.deepcopy` copies every tensor, and what you put "
        "in its place was copied as well. `copy.copy` takes a module without copying its tensors.",
        recognise=seen.copied_as_many(lambda n: 2 * (n - 1) - 0.2),
    ),
    Mistake(
        "copies-for-the-first",
        "Device 0 got a copy of the weights as well. The module is on device 0: replica 0 takes the tensors that are "
        "there.",
        recognise=seen.first_has_copies,
    ),
    Mistake(
        "copies-shared-twice",
        "A weight that has two names was copied under each of them. Keep a dictionary, from each tensor to its copy, "
        "while you make a replica, and look there first.",
        recognise=seen.any_fact("copied"),
    ),
)
OF_THREADS = (
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
        recognise=seen.says("met", "one after another"),
    ),
    Mistake(
        "not-all-at-once",
        "Some replicas ran at the same time, and not all of them. Each device has a thread of its own.",
        recognise=seen.says("met", "at a time"),
    ),
    Mistake(
        "swapped-in-one-module",
        "In the middle of its forward a replica's weights became those of another. `functional_call` puts tensors into "
        "the module for as long as the call lasts, and all threads called one module. Give each thread a module of its "
        "own: `copy.copy` costs no memory.",
        recognise=lambda evidence: any(True for _ in seen.wrong(evidence, "mixed")),
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
        recognise=lambda evidence: any(True for _ in seen.wrong(evidence, "done")),
    ),
    Mistake(
        "failure-lost",
        "A replica raised, and its error never reached the caller: an exception ends its own thread and nobody else's. "
        "Catch it in the thread, keep it, and raise after joining.",
        recognise=seen.loses_failures,
    ),
    Mistake(
        "another's-error",
        "Two replicas failed, and the caller is told of the later one. Promised is the first, in the order of the "
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
            any(True for _ in seen.wrong(evidence, "modes")) or seen.raised("Unexpected floating ScalarType")(evidence)
        ),
        shows=seen.shows("modes"),
    ),
    Mistake(
        "thread-left",
        "When the output is there, a thread of yours still runs. A pool is closed by `with`, a thread ends by itself "
        "and is joined. Threads that stay keep their memory, and a process that cannot end.",
        recognise=seen.any_fact("threads", "held"),
    ),
)
OF_AWKWARD = (
    Mistake(
        "deep-copied",
        "`copy.deepcopy` copies everything that a module has, and of some things there can be no copy: a lock, an open "
        "file. PyTorch's replicas share what is no tensor with the module. Copy modules with `copy.copy`.",
        recognise=seen.raised("cannot pickle", "deepcopy"),
    ),
    Mistake(
        "buffers-lost",
        "The module's buffers did not move: what replica 0 wrote into them is lost. Replica 0 has the module's own "
        "buffers, the others have copies.",
        recognise=seen.buffers_as_before,
    ),
    Mistake(
        "buffers-of-others",
        "What another replica than the first wrote is in the module's buffers. By the rule of PyTorch replica 0 has "
        "the module's own, and what the others write is lost with them.",
        recognise=seen.any_fact("buffers", "output"),
    ),
    Mistake(
        "unused-gets-zeros",
        "A parameter that nobody used has a gradient of zeros; on one device it has none. An optimizer with weight "
        "decay tells them apart. (PyTorch's own gives zeros here.) A recorded copy of each tensor leaves None; a "
        "function of your own does after `ctx.set_materialize_grads(False)`.",
        recognise=seen.unused_got_zeros,
    ),
    Mistake(
        "scalars-not-joined",
        "A replica may return a scalar, its loss for one. `torch.cat` refuses those: make each a row of one, so that "
        "the caller gets a vector with an entry for each replica.",
        recognise=seen.raised("zero-dimensional tensor"),
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
        recognise=seen.fails_in(
            "nested inputs and outputs",
            "nested inputs, fewer rows than devices",
            also=("a model without an input", "no rows"),
        ),
    ),
)
