"""The build of ``nn.DataParallel``, step by step: 03.dp_values to 03.dp_awkward, and 03.dp_flat for the quick."""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Exercise, Mistake
from course_lib.learn.exercises.lesson_03.data_parallel import named, named_late
from course_lib.learn.exercises.lesson_03.data_parallel.cases import (
    AWKWARD,
    COST,
    FLAT,
    GRADIENTS,
    THREADS,
    VALUES,
    cases_of,
)
from course_lib.learn.exercises.lesson_03.data_parallel.trial import trial
from course_lib.learn.judging.isolated_judge import by_cases_apart
from course_lib.learn.judging.report import compare

__all__ = ["STEPS"]

_FOUR = ("scatter", "replicate", "parallel_apply", "gather")
FORBIDDEN = (
    "torch.nn.DataParallel",
    *(f"torch.nn.parallel.{name}" for name in ("replicate", "scatter", "parallel_apply", "gather", "data_parallel")),
    *(
        f"course_lib.parallel.data.{name}"
        for name in ("DataParallel", "replicate", "scatter", "parallel_apply", "gather")
    ),
    *(f"course_lib.parallel.data.threads.device_moves.{name}" for name in ("Broadcast", "Scatter", "Gather")),
)


def _step(
    name: str,
    title: str,
    demands: tuple[str, ...],
    mistakes: tuple[Mistake, ...],
    hints: tuple[str, str, str],
    passed: str,
) -> Exercise:
    return Exercise(
        name=f"03.dp_{name}",
        title=title,
        judge=by_cases_apart(cases_of(demands), call=trial, compare=compare, changes=True),
        mistakes=mistakes,
        hints=hints,
        forbidden=FORBIDDEN,
        passed=passed,
    )


STEPS = (
    _step(
        "values",
        "DataParallel: outputs as of one device",
        VALUES,
        named.OF_VALUES,
        (
            "Three lines in `forward`: cut the batch, call the module for each part, join what came.",
            "`Tensor.chunk(n)` cuts into n parts at most, and gives fewer when there are too few rows. Call the module "
            "once for each part that there is. `torch.cat` joins.",
            "`parts = x.chunk(len(self.devices))`, then `torch.cat([self.module(part) for part in parts])`.",
        ),
        "Every device computes its part, in the sizes of `chunk`, and the outputs are joined in order.",
    ),
    _step(
        "gradients",
        "DataParallel: a replica for each device, and gradients that come back",
        GRADIENTS,
        named.UP_TO_GRADIENTS,
        (
            "What must a replica's weight be, if autograd is to carry its gradient on to the module's?",
            "Device 0 has the module's own tensors. For every other device copy the tree of modules, without the "
            "tensors; then give each its own tensors, copied by an operation that autograd records. Copy the "
            "parts of the batch, too.",
            "`new = copy.copy(module)`, then `new._parameters = {name: p if p is None or r == 0 else "
            "p.to(device, copy=True) ...}`, likewise `_buffers`, and `_modules` by a call of the same function.",
        ),
        "Every replica has memory of its own, and the module gets the gradients of one device, step after step.",
    ),
    _step(
        "cost",
        "DataParallel: no byte more than needed, and nothing kept",
        COST,
        named.UP_TO_COST,
        (
            "Which devices need a copy of which tensors? Count devices that have work, and tensors with two names.",
            "Replicas for as many devices as there are parts. Device 0 takes what is there. A tensor with two names is "
            "copied once: keep a dictionary from tensor to copy while a replica is made. Nothing goes on `self`.",
            "`if p not in done: done[p] = p.to(device, copy=True)`, with a new `done` for each replica, and the tree "
            "copied by `copy.copy`, which copies no tensor.",
        ),
        "The weights travel once to each device that has work, and after the backward pass no copy is left.",
    ),
    _step(
        "threads",
        "DataParallel: a thread for each device",
        THREADS,
        named_late.UP_TO_THREADS,
        (
            "A new thread lacks what the thread that made it has: recording, inference mode, autocast, and somebody "
            "who sees an error.",
            "Ask for the modes in `forward`, enter them in each thread. Catch what a thread raises, under its number. "
            "Start all, join all, then raise the first in order, with its number and device, from the error itself.",
            "`torch.autocast(kind, torch.get_autocast_dtype(kind), torch.is_autocast_enabled(kind))` is made by the "
            'caller and entered in the thread. Last: `raise RuntimeError(f"replica {r} on {device}") from error`.',
        ),
        "All replicas run at the same time, in the caller's modes; a failure has a number, a device and its traceback.",
    ),
    _step(
        "awkward",
        "DataParallel: awkward models and inputs",
        AWKWARD,
        named_late.UP_TO_AWKWARD,
        (
            "Take nested things apart into leaves, do to each leaf what you do to a tensor, and put them together.",
            "`tree_flatten` gives leaves and a nesting, `tree_unflatten` builds again. What is no tensor goes to every "
            "part as it is. Outputs: the same, place by place; a scalar is joined as a row of one.",
            "Buffers: `b if r == 0 else b.to(device, copy=True)`. Without a tensor there is one part: "
            "`max((len(pieces) for pieces in cut if pieces), default=1)`.",
        ),
        "All is as on one device: with shared, frozen and unused weights, buffers, nested inputs, and no rows.",
    ),
    _step(
        "flat",
        "DataParallel: the weights in one piece",
        FLAT,
        named_late.OF_FLAT,
        (
            "Which tensors can be one tensor while they travel, and what does autograd do on the way back?",
            "Group parameters and buffers by dtype and `requires_grad`. Join each group once, copy it for each device, "
            "and cut it there: `split` and `view` copy nothing, and autograd knows their way back.",
            "`flat = torch.cat([t.flatten() for t in group])`, then for each device `pieces = flat.to(device, "
            "copy=True).split([t.numel() for t in group])`, and `piece.view_as(t)`.",
        ),
        "Each device gets one piece for each kind of tensor, and all else is as before.",
    ),
)
