"""The named mistakes of the first three steps of the build of lesson 03, by the step that first can show them."""

from __future__ import annotations

import torch

from course_lib.learn.catalogue.exercise import Mistake
from course_lib.learn.exercises.lesson_03.data_parallel import mistakes as seen
from course_lib.learn.judging.errors import error_says
from course_lib.learn.judging.report import only_wrong

__all__ = ["OF_COPIES", "OF_VALUES", "UP_TO_COST", "UP_TO_GRADIENTS"]

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
        "dealt-out",
        "Device r computed every n-th row, from row r on, and the outputs stand one behind the other. So the rows come "
        "back in another order. A part of the batch is rows that lie side by side.",
        recognise=seen.is_dealt_out,
    ),
    Mistake(
        "as-even-as-can-be",
        "Your parts are as even as can be. PyTorch's are those of `chunk`: all as large as the first, until nothing is "
        "left. So 10 rows on 4 devices are 3, 3, 3 and 1. A caller that weighs a loss by rows relies on it.",
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
        "The outputs come back as a list, a part for each device. The caller gave one batch, and asks for one output: "
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
            error_says("stack expects each tensor")(evidence)
            or seen.output_is(lambda got: isinstance(got, torch.Tensor) and got.dim() == 3)(evidence)
        ),
    ),
)
_OF_GRADIENTS = (
    Mistake(
        "new-parameters",
        "The replicas have parameters of their own, as `copy.deepcopy` and `nn.Parameter` make them. Those collect "
        "gradients, and the module's, which the optimizer holds, do not get them all. A replica's weight is the "
        "*result* of a copy that autograd records.",
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
        "The first step is right, and the later ones are not: the replicas still have the weights of an earlier call, "
        "or hooks of it. The optimizer changes the module's weights alone, so every forward pass makes replicas anew.",
        recognise=lambda evidence: (
            seen.later_steps_are_wrong(evidence) or error_says("backward through the graph a second time")(evidence)
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
OF_COPIES = (  # of dtype and flags
    Mistake(
        "cast",
        "The values are right, and in a replica a weight or a buffer has another dtype than in the module. `torch.cat` "
        "makes one dtype of two. Keep tensors of two dtypes apart.",
        recognise=lambda evidence: (
            seen.says("cast")(evidence) and only_wrong("cast", "held", "copied", "copied_flat")(evidence)
        ),
    ),
    Mistake(
        "thawed",
        "A weight that is frozen in the module asks for a gradient in a replica. Nobody reads this gradient, and it is "
        "computed all the same. A recorded copy of a frozen tensor asks for none.",
        recognise=lambda evidence: (
            seen.says("frozen")(evidence) and only_wrong("frozen", "held", "copied", "copied_flat", "grads")(evidence)
        ),
    ),
)
_OF_COST = (
    *OF_COPIES,
    Mistake(
        "keeps-outputs",
        "The results are right, and outputs of replicas are still there when the step is over. Join them, and keep "
        "them nowhere: not on `self`, not in a list of the class.",
        recognise=lambda evidence: only_wrong("held")(evidence) and seen.every("held", "an output")(evidence),
    ),
    Mistake(
        "whole-batch-sent",
        "Where the batch is large, too much was copied: each device got the whole batch, or several parts of it. Cut "
        "first, and send each device its own part alone.",
        recognise=lambda evidence: (
            only_wrong("copied")(evidence) and seen.fails_in("a large batch on 4 devices")(evidence)
        ),
    ),
    Mistake(
        "copied-in-float64",
        "With weights in float64 all is well, and with weights in float32 more is copied than is needed: the copy "
        "passes through another dtype. Copy each tensor as it is.",
        recognise=lambda evidence: (
            only_wrong("copied")(evidence) and seen.fails_in("a wide model in float32")(evidence)
        ),
    ),
    Mistake(
        "keeps-replicas",
        "The results are right, and replicas are still there when the step is over: a model's memory more on each "
        "device, beside gradients and optimizer. Make them in `forward`, and keep them nowhere: not on `self`, not in "
        "a list of the class.",
        recognise=only_wrong("held"),
    ),
    Mistake(
        "copies-for-idle-devices",
        "A device without a part of the batch got the weights all the same. Count the parts first, and make as many "
        "replicas.",
        recognise=seen.idle_devices_alone,
    ),
    Mistake(
        "copies-twice",
        "For each device more memory was made than one copy of the weights. `copy.deepcopy` copies every tensor before "
        "you put another in its place; a change of dtype makes one more, too. `copy.copy` takes a module without "
        "copying its tensors.",
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
        recognise=only_wrong("copied"),
    ),
)

# What an earlier step can show comes first.
UP_TO_GRADIENTS = (*OF_VALUES, *_OF_GRADIENTS)
UP_TO_COST = (*UP_TO_GRADIENTS, *_OF_COST)
