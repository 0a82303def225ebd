"""The cases of each step, and what is right: one model on one device, and the parts of a batch by ``Tensor.chunk``."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from course_lib.learn.catalogue.exercise import Case
from course_lib.learn.exercises.lesson_03.data_parallel.report import FINE, NONE_OR_ZEROS, DataParallelReport
from course_lib.learn.exercises.lesson_03.data_parallel.run import ReplicaRun, inputs_of, loss_of, mode_of
from course_lib.learn.exercises.lesson_03.data_parallel.trial import gradients_of, noted, train
from course_lib.learn.judging.report import NOT_DEMANDED

__all__ = ["AWKWARD", "COST", "FLAT", "GRADIENTS", "THREADS", "VALUES", "cases_of", "right"]

VALUES = ("output", "rows", "earlier", "changed", "training", "drawn")
GRADIENTS = (*VALUES, "grads", "input_grads", "weights", "memory")
COST = (*GRADIENTS, "frozen", "cast", "copied", "held")
THREADS = (*COST, "limits", "met", "told", "died", "done", "mixed", "modes", "after", "threads", "later")
AWKWARD = (*THREADS, "buffers", "noted")
FLAT = (*(fact for fact in AWKWARD if fact != "copied"), "copied_flat", "pieces")  # one model more may be made

_PLAIN: dict[str, ReplicaRun] = {
    "8 rows on 4 devices": ReplicaRun("plain"),
    "10 rows on 4 devices": ReplicaRun("plain", rows=10),
    "6 rows on 4 devices": ReplicaRun("plain", rows=6),
    "1 row on 4 devices": ReplicaRun("plain", rows=1),
    "7 rows on 3 devices": ReplicaRun("plain", 3, 7),
    "5 rows on 1 device": ReplicaRun("plain", 1, 5),
}
_LEARNED: dict[str, ReplicaRun] = {
    "training on 4 devices": ReplicaRun("plain", rows=10, trains=True),
    "training on 3 devices": ReplicaRun("plain", 3, 4, trains=True),
    "training on 1 device": ReplicaRun("plain", 1, 5, trains=True),
    "an evaluation under torch.no_grad()": ReplicaRun("plain", rows=9, mode="no_grad", evaluates=True),
}
_COUNTED: dict[str, ReplicaRun] = {
    "a wide model on 4 devices": ReplicaRun("wide", metered=True),
    "a wide model on 2 devices": ReplicaRun("wide", 2, metered=True),
    "4 rows on 3 devices, one of them idle": ReplicaRun("wide", 3, 4, metered=True),
    "a wide model under torch.no_grad()": ReplicaRun("wide", mode="no_grad", metered=True),
    "a wide model in float32": ReplicaRun("wide", metered=True, is_single=True),
    "a large batch on 4 devices": ReplicaRun("plain", rows=400, metered=True),
}
_TOGETHER: dict[str, ReplicaRun] = {
    "replicas that wait for each other": ReplicaRun("plain", rows=10, meets=True, trains=True),
    "replicas that wait, under torch.no_grad()": ReplicaRun("plain", 3, 7, "no_grad", meets=True),
    "replicas that wait, in evaluation": ReplicaRun("plain", 3, 7, meets=True, evaluates=True),
    "replicas that wait, in inference mode": ReplicaRun("plain", 2, 4, "inference", meets=True),
    "replicas that wait, under autocast": ReplicaRun("plain", 4, 8, "bfloat16", meets=True),
    "replicas that wait, under autocast with float16": ReplicaRun("plain", 3, 8, "float16", meets=True),
    "a replica that fails": ReplicaRun("failing", meets=True, failing=(2,)),
    "two replicas that fail": ReplicaRun("failing", meets=True, failing=(1, 3)),
    "the first replica fails": ReplicaRun("failing", 3, 7, meets=True, failing=(0,), early=True),
}
_ODD: dict[str, ReplicaRun] = {
    "a model with shared, frozen and unused weights": ReplicaRun("tied", rows=10, meets=True, trains=True),
    "a BatchNorm in training": ReplicaRun("normed", meets=True),
    "a BatchNorm in evaluation": ReplicaRun("normed", 3, 7, meets=True, evaluates=True),
    "buffers that are changed in place, and a lock": ReplicaRun("counting", rows=10, meets=True),
    "nested inputs and outputs": ReplicaRun("nested", rows=10, meets=True),
    "nested inputs, fewer rows than devices": ReplicaRun("nested", rows=2, meets=True),
    "a layer that keeps a list of its weights": ReplicaRun("recurrent", rows=6, meets=True, trains=True),
    "a model without an input": ReplicaRun("no input"),
    "no rows": ReplicaRun("plain", rows=0),
}
_RUNS = {VALUES: _PLAIN, GRADIENTS: _LEARNED, COST: _COUNTED, THREADS: _TOGETHER, AWKWARD: _ODD, FLAT: _COUNTED}


def cases_of(demands: tuple[str, ...]) -> list[Case]:
    """The cases of each step up to this one, by what this one demands."""
    runs: dict[str, ReplicaRun] = {}
    for step, of_step in _RUNS.items():
        runs |= of_step
        if step == demands:
            break
    return [Case(label, (run,), partial(right, demands)) for label, run in runs.items()]


def right(demands: tuple[str, ...], run: ReplicaRun) -> DataParallelReport:
    """What this step expects of a run."""
    facts: dict[str, Any] = {**FINE, **_facts(run)}
    if demands == FLAT and "grads" in facts:  # one gradient comes back for a whole piece
        facts["grads"] = {name: NONE_OR_ZEROS if isinstance(g, str) else g for name, g in facts["grads"].items()}
    return DataParallelReport(**{name: facts[name] for name in demands if name in facts}, run=run)


@cache
def _facts(run: ReplicaRun) -> dict[str, Any]:
    if run.failing:
        return {"told": "all", "done": f"{run.num_parts} of {run.num_parts}", "later": "right", **_rows(run)}
    with mode_of(run):
        out = _whole(run)
        facts: dict[str, Any] = {"done": f"{run.num_parts} of {run.num_parts}", "training": [not run.evaluates]}
        facts |= {"output": noted(out, run), "buffers": _buffers(run), **_rows(run)}
    if not run.rows or run.kind == "no input":
        facts |= dict.fromkeys(("rows", "done", "training", "memory"), NOT_DEMANDED)  # one call will do
    if run.is_single:
        return {name: facts[name] for name in ("rows", "done", "training")}
    if run.kind == "counting":
        facts["noted"] = facts["rows"]
    return facts | ({} if run.mode else _learned(run))


def _rows(run: ReplicaRun) -> dict[str, Any]:
    if run.kind == "no input" or not run.rows:
        return {}
    return {"rows": [len(part) for part in torch.arange(run.rows).chunk(run.num_devices)]}


def _calls(run: ReplicaRun, forward: Callable[..., Any], rows: int, step: int = 0, given: Any = None) -> list[Any]:
    """What a model gives for each part, one after another on one device."""
    args, kwargs = given or inputs_of(run, rows, step)
    outputs = []
    for at in torch.arange(rows).chunk(run.num_devices):
        part = slice(int(at[0]), int(at[-1]) + 1)
        outputs.append(forward(*_cut(args, part), **_cut(kwargs, part)))
    return outputs


def _cut(thing: Any, part: slice) -> Any:
    if isinstance(thing, Tensor):
        return thing[part]
    if isinstance(thing, dict):
        return {key: _cut(value, part) for key, value in thing.items()}
    return type(thing)(_cut(one, part) for one in thing) if isinstance(thing, list | tuple) else thing


def _joined(outputs: list[Any]) -> Any:
    first = outputs[0]
    if isinstance(first, Tensor):
        return torch.stack(outputs) if first.dim() == 0 else torch.cat(outputs)
    if isinstance(first, dict):
        return {key: _joined([one[key] for one in outputs]) for key in first}
    if isinstance(first, list | tuple):
        return type(first)(_joined(list(column)) for column in zip(*outputs, strict=True))
    return first


def _one_device(run: ReplicaRun, model: Any, rows: int, step: int = 0, given: Any = None) -> Any:
    """What one device gives: for the whole batch, or in its parts where a part has values of its own."""
    if run.kind in ("normed", "wide", "nested"):
        return _joined(_calls(run, model, rows, step, given))
    args, kwargs = given or inputs_of(run, rows, step)
    return model(*args, **kwargs)


def _whole(run: ReplicaRun) -> Any:
    return _one_device(run, run.model(), run.rows)


def _buffers(run: ReplicaRun) -> dict[str, Tensor]:
    """As the first part alone leaves them."""
    model = run.model()
    if run.rows and run.kind != "no input":
        args, kwargs = inputs_of(run, run.rows)
        first = slice(0, run.rows_each)
        model(*_cut(args, first), **_cut(kwargs, first))
    return {name: one.detach().clone() for name, one in model.named_buffers()}


def _learned(run: ReplicaRun) -> dict[str, Any]:
    model, given = run.model(), inputs_of(run, run.rows)
    loss_of(_one_device(run, model, run.rows, given=given)).backward()
    facts = gradients_of(model, given)
    return facts | ({"weights": train(model, model, run)} if run.trains else {})
