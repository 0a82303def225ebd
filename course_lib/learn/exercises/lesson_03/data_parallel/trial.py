"""One trial for all steps of the build: calls of what an answer gives, and training with it, as one report."""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from course_lib.learn.exercises.lesson_03.data_parallel.models import ERRORS, batch
from course_lib.learn.exercises.lesson_03.data_parallel.replicas import (
    copied,
    first_is_copied,
    memory_of_replicas,
    met,
    odd,
    pieces,
)
from course_lib.learn.exercises.lesson_03.data_parallel.report import NOTHING, DataParallelReport
from course_lib.learn.exercises.lesson_03.data_parallel.run import ReplicaRun, inputs_of, loss_of, mode_of, modes_of
from course_lib.learn.exercises.lesson_03.data_parallel.told import told_of
from course_lib.learn.exercises.lesson_03.data_parallel.trace import (
    ThreadRendezvous,
    Trace,
    bytes_of_tensors,
    modes_now,
    threads_metered,
    tracing,
)
from course_lib.learn.exercises.lesson_03.failures import silent_threads
from course_lib.learn.judging.call_time_limits import limits_end_at_once
from course_lib.learn.judging.mutation_guard import Kept

__all__ = ["gradients_of", "noted", "train", "trial"]

_LATE_S = 3.0  # for threads that the answer did not wait for
_LR, _STEPS = 0.1, (7, 5, 2)  # rows of the batches of training

_never_met: list[Any] = []  # answers whose replicas ran one after another: the next wait is short


def trial(answer: Callable[..., Any], run: ReplicaRun) -> DataParallelReport:
    """A call, as the run says it, then what it should leave: gradients, weights after training, memory, threads."""
    model, inputs = run.model(), inputs_of(run, run.rows)
    trace = Trace(
        model,
        run.rows_each,
        ThreadRendezvous(run.num_parts, answer not in _never_met) if run.meets else None,
        early=run.early,
    )
    wrapped = answer(model, ["cpu"] * run.num_devices)
    if isinstance(wrapped, nn.Module):
        wrapped.train(not run.evaluates)
    own, kept = [*model.parameters(), *model.buffers()], Kept(module=model, inputs=[*inputs], ignore=("buffers",))
    out, seen = _called(wrapped, inputs, trace, run)
    if not trace.met and len(trace.calls) >= run.num_parts:
        _never_met.append(answer)
    now = [*model.parameters(), *model.buffers()]
    is_same = len(now) == len(own) and all(a is b for a, b in zip(own, now, strict=True))
    seen |= _of_calls(trace, run, inputs)
    seen |= {
        "output": noted(out, run),
        "changed": kept.changes() or (NOTHING if is_same else "`module` has other tensors than before"),
        "copied": copied(trace, run, inputs, out),
        "copied_flat": copied(trace, run, inputs, out, more=1),
        "pieces": pieces(trace, run),
        "buffers": {name: one.detach().clone() for name, one in model.named_buffers()},
        "noted": sorted(getattr(model.inner, "noted", ()), reverse=True),
        "initial": {name: one.clone() for name, one in run.model().named_buffers()},
        "run": run,
    }
    if run.failing:
        return DataParallelReport(**seen, later=_later(wrapped, run))
    if not run.mode and tree_leaves(out):
        seen |= _backward(model, inputs, out)
    out = tree_map(lambda leaf: leaf.detach() if isinstance(leaf, Tensor) else leaf, out)  # no graph any more
    seen["held"] = ", ".join(_held(trace, inputs, out)[:2]) or NOTHING
    seen |= _earlier(wrapped, run, out)
    if run.trains:
        seen["weights"] = train(wrapped, model, run)
    return DataParallelReport(**seen)


def _held(trace: Trace, *ours: Any) -> list[str]:
    """What somebody still holds of replicas; a circle of an answer's own frames is nobody."""
    for generation in (0, 1, 2):  # the last takes a tenth of a second
        found = trace.alive(ours, [p.grad for p in trace.original.parameters()])
        if not found:
            return []
        gc.collect(generation)
    return trace.alive(ours, [p.grad for p in trace.original.parameters()])


def _called(wrapped: Callable[..., Any], inputs: Any, trace: Trace, run: ReplicaRun) -> tuple[Any, dict[str, Any]]:
    """What a call gives, and what its caller has when it is back, before threads that are late add to it."""
    args, kwargs = inputs
    out: Any = None
    told = NOTHING
    threads, random = set(threading.enumerate()), torch.get_rng_state()
    modes_before, records = modes_of(run), torch.is_grad_enabled()
    meter = threads_metered(trace) if run.metered else contextlib.nullcontext()
    with silent_threads() as died, tracing(trace), mode_of(run), limits_end_at_once() as cut, meter:
        try:
            out = wrapped(*args, **kwargs)
        except Exception as error:
            told = told_of(error, run.failing, run.num_devices) if run.failing else ""
            if not told:
                raise
        num_done, modes = trace.num_done, modes_now()
        left = {thread for thread in threading.enumerate() if thread.is_alive()} - threads
    if trace.rendezvous is not None:
        trace.rendezvous.call_is_over()
    torch.set_grad_enabled(records)
    for thread in left if num_done < run.num_parts else ():
        thread.join(_LATE_S)
    return out, {
        "told": told,
        "died": died[0] if died else NOTHING,
        "done": f"{num_done} of {run.num_parts}",
        "after": "as before" if modes == modes_before else "others than before",
        "drawn": NOTHING if torch.equal(random, torch.get_rng_state()) else "another state than before",
        "threads": "a thread" if left else NOTHING,
        "limits": cut[0] if cut and num_done < run.num_parts else NOTHING,
    }


def _of_calls(trace: Trace, run: ReplicaRun, inputs: Any) -> dict[str, Any]:
    """What the replicas saw."""
    calls = trace.calls
    return {
        "rows": sorted((call.num_rows for call in calls), reverse=True),
        "memory": memory_of_replicas(trace, inputs),
        "frozen": next((name for call in calls for name in call.thawed), NOTHING),
        "cast": next((name for call in calls for name in call.cast), NOTHING),
        "leaf": next((name for call in calls for name in call.leaves), NOTHING),
        "met": met(trace),
        "mixed": "those of another" if any(call.mixed for call in calls) else "its own",
        "modes": odd(trace, modes_of(run)),
        "training": sorted({call.is_training for call in calls}),
        "first_is_copied": first_is_copied(trace),
        "made_bytes": trace.made_bytes,
        "model_bytes": bytes_of_tensors(trace.original),
    }


def train(forward: Callable[..., Any], model: nn.Module, run: ReplicaRun) -> dict[str, Tensor]:
    """The weights after steps of SGD with momentum, with batches of other sizes, from the gradients that there are."""
    optimizer = torch.optim.SGD(model.parameters(), lr=_LR, momentum=0.9)
    for step, rows in enumerate(_STEPS, start=1):
        args, kwargs = inputs_of(run, rows, step)
        optimizer.step()
        optimizer.zero_grad()
        loss_of(forward(*args, **kwargs)).backward()
    optimizer.step()
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def noted(out: Any, run: ReplicaRun) -> Any:
    """An output to be compared; under autocast its dtype, since a part of a batch may be rounded in another way."""
    if run.is_mixed and isinstance(out, Tensor):
        return str(out.dtype)
    return tree_map(lambda leaf: leaf.detach().clone() if isinstance(leaf, Tensor) else leaf, out)


def _later(wrapped: Callable[..., Any], run: ReplicaRun) -> str:
    """Whether rows that fail nowhere go through after the failure, as they did before."""
    x = batch(1)
    x[:, 0] = len(ERRORS) * run.rows_each * run.num_devices
    want = run.model()(x).detach()
    have = wrapped(x)
    return "right" if isinstance(have, Tensor) and torch.allclose(have.detach(), want, atol=1e-12) else "wrong"


def _earlier(wrapped: Callable[..., Any], run: ReplicaRun, out: Any) -> dict[str, str]:
    """What becomes of an output when there is another call, with the other numbers of another batch."""
    was = tree_map(lambda leaf: leaf.detach().clone() if isinstance(leaf, Tensor) else leaf, out)
    args, kwargs = inputs_of(run, run.rows, 9)
    with torch.no_grad(), mode_of(run):
        wrapped(*args, **kwargs)
    pairs = zip(tree_leaves(was), tree_leaves(out), strict=True)
    same = all(torch.equal(a, b) for a, b in pairs if isinstance(a, Tensor))
    return {"earlier": NOTHING if same else "other numbers"}


def _backward(model: nn.Module, inputs: Any, out: Any) -> dict[str, Any]:
    loss = loss_of(out)
    if loss.requires_grad:
        loss.backward()
    return gradients_of(model, inputs)


def gradients_of(model: nn.Module, inputs: Any) -> dict[str, Any]:
    """Those of the parameters by name, and of the inputs that ask for one; a word where there is none."""
    given = [leaf for leaf in tree_leaves(inputs) if isinstance(leaf, Tensor) and leaf.requires_grad]
    return {
        "grads": {name: "none" if p.grad is None else p.grad.clone() for name, p in model.named_parameters()},
        "input_grads": ["none" if x.grad is None else x.grad.clone() for x in given],
    }
